"""Read a job file: the roles of a job, with every error at once. Pure."""

import difflib
import re
import shlex
import tomllib
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, ValidationError

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.model.text.sanitise import visible_line
from pylaunch.model.text.typed_json import converted

NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
MOST_NODES = 100_000
MOST_REPLICAS = 512
READY_TIMEOUT_S = 600.0
LONGEST_S = 7 * 86400.0
PORTS = range(1, 65536)
ReadyBy = Literal["tcp", "http"]
"""The port accepts connections; a request there is answered with a status from 200 to 399."""


@dataclass(frozen=True)
class ReadyTest:
    """Test of the readiness of a replica."""

    by: ReadyBy
    target: str
    """Name or number of a port."""

    path: str = ""
    """Path of the HTTP request."""

    @property
    def words(self) -> str:
        """The test as the job file has it."""
        return f"{self.by}:{self.target}{self.path}"


@dataclass(frozen=True, kw_only=True)
class JobRole:
    """One role of a job: replicas of one program, each with its own world of ranks."""

    name: str
    program: Argv
    options: Mapping[str, Any]
    """Options of `pylaunch start` by parameter name, as the file has them."""

    nodes: int | None = None
    """Hosts of each replica; None is all that are left."""

    hosts: str | None = None
    """Pattern of the inventory's hosts and groups; None is any host."""

    replicas: int = 1
    shared: bool = False
    """Its hosts may have further roles that are shared, too."""

    devices: bool = True
    """False: its ranks see no devices, and it takes none from roles on the same hosts."""

    ports: tuple[str, ...] = ()
    """Names of ports; each replica has free ones on its first node."""

    after: tuple[str, ...] = ()
    """Roles that are ready before the ranks of this one start."""

    ready: ReadyTest | None = None
    """None: ready as soon as its ranks run."""

    ready_timeout: float = READY_TIMEOUT_S
    """Seconds."""

    service: bool = False
    """Runs until the other roles have ended; pylaunch stops it then."""


@dataclass(frozen=True)
class JobFile:
    """A job of several roles."""

    name: str
    roles: tuple[JobRole, ...]


_FLAG = (bool, "true or false")
_KEYS: Mapping[str, tuple[Any, str]] = {
    "nodes": (Annotated[int, Meta(ge=1, le=MOST_NODES)], f"a whole number from 1 to {MOST_NODES}"),
    "hosts": (Annotated[str, Meta(min_length=1)], "a text"),
    "replicas": (Annotated[int, Meta(ge=1, le=MOST_REPLICAS)], f"a whole number from 1 to {MOST_REPLICAS}"),
    "shared": _FLAG,
    "devices": _FLAG,
    "after": (tuple[str, ...], "names of roles"),
    "ports": (tuple[str, ...], 'names, such as ["http"]'),
    "ready-timeout": (Annotated[float, Meta(gt=0, le=LONGEST_S)], f"seconds, at most {LONGEST_S:g}"),
    "service": _FLAG,
}
"""Type and description of a value."""

OWN_KEYS = ("program", "ready", *_KEYS)
"""Keys of a role that are no options of `start`; `nodes` is both."""


def read(text: str, path: str, sets: Sequence[str], options: Collection[str]) -> JobFile:
    """Return the job of the file `path`, whose content is `text`.

    `sets` are values of --set, such as trainer.nodes=4; `options` are the options of `start` that a role may have, by
    parameter name. Raises UsageError with all errors.
    """
    try:
        table = tomllib.loads(text)
        for word in sets:
            _set(table, word)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", hint="an example: pylaunch help roles") from None
    reader = _FileReader(options)
    job = reader.job(table, path.rpartition("/")[2].removesuffix(".toml"))
    if reader.errors:
        raise UsageError(
            f"{path}: {len(reader.errors)} error{'s' if len(reader.errors) > 1 else ''}",
            evidence=reader.errors,
            hint="pylaunch help roles",
        )
    return job


def _set(table: dict[str, Any], word: str) -> None:
    """Set a value of --set in `table`. Raises UsageError."""
    where, equals, text = word.partition("=")
    keys = where.split(".")
    roles = table.get("roles")
    if not equals or len(keys) < 2 or not isinstance(roles, dict):
        raise UsageError(f"--set {word}: expected ROLE.KEY=VALUE", hint="--set trainer.nodes=4")
    if keys[0] not in roles:
        raise UsageError(f"--set {word}: there is no role {keys[0]}; there are: {', '.join(roles)}")
    inner: Any = roles[keys[0]]
    for key in keys[1:-1]:
        inner = inner.setdefault(key, {}) if isinstance(inner, dict) else None
    if not isinstance(inner, dict):
        raise UsageError(f"--set {word}: {'.'.join(keys[:-1])} is no table")
    try:
        inner[keys[-1]] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        inner[keys[-1]] = text  # A word without quotation marks, as a shell passes it.


class _FileReader:
    """Reads the tables of a job file and collects the errors."""

    def __init__(self, options: Collection[str]) -> None:
        self.errors: list[str] = []
        self._options = options
        self._where = ""

    def job(self, table: Mapping[str, Any], name: str) -> JobFile:
        """Return the job; it is incomplete where there are errors."""
        for key in table.keys() - {"name", "roles"}:
            self._say(f"{key}: expected name and [roles.NAME]")
        given = table.get("name", name if JOB_NAME.fullmatch(name) else "job")
        tables = table.get("roles", {})
        if not isinstance(tables, dict) or not tables:
            self._say("no role: a job has at least one table [roles.NAME]")
            tables = {}
        roles = []
        for each, content in tables.items():
            self._where = f"[roles.{each}] "
            if not NAME.fullmatch(each):
                self._say("expected a name of lower-case letters, digits, - and _, at most 31, a letter first")
            elif not isinstance(content, dict):
                self._say("expected a table")
            else:
                roles.append(self._role(each, content))
        self._where = ""
        self._check_order(roles)
        if roles and all(role.service for role in roles):
            self._say("every role is a service, so the job would never end: one role must end on its own")
        if not isinstance(given, str) or not JOB_NAME.fullmatch(given):
            self._say(f"name = {given!r}: expected at most 63 letters, digits, dots, - and _, a letter or digit first")
            given = "job"
        return JobFile(given, tuple(roles))

    def _role(self, name: str, table: Mapping[str, Any]) -> JobRole:
        options: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for written, value in table.items():
            key, parameter = written.replace("_", "-"), written.replace("-", "_")
            if key in _KEYS:
                self._convert(own, key, [value] if key in ("after", "ports") and isinstance(value, str) else value)
            elif parameter in self._options:
                options[parameter] = value
            elif key not in OWN_KEYS:
                near = difflib.get_close_matches(
                    written, [*OWN_KEYS, *(each.replace("_", "-") for each in self._options)], 1
                )
                self._say(f"{written}: unknown key" + (f"; did you mean {near[0]}?" if near else ""))
        ports = own.get("ports", ())
        for port in ports:
            if not NAME.fullmatch(port):
                self._say(f"ports: {port!r}: expected a name of lower-case letters, digits, - and _, a letter first")
        ready = self._ready(table.get("ready"), ports)
        program = self._program(table.get("program"))
        return JobRole(name=name, program=program, options=options, ready=ready, **own)

    def _convert(self, own: dict[str, Any], key: str, value: object) -> None:
        kind, expected = _KEYS[key]
        try:
            own[key.replace("-", "_")] = converted(value, kind)
        except ValidationError:
            self._say(f"{key} = {value!r}: expected {expected}")

    def _say(self, text: str) -> None:
        self.errors.append(visible_line(self._where + text))

    def _program(self, value: object) -> Argv:
        if isinstance(value, str):
            try:
                value = shlex.split(value)
            except ValueError as error:
                self._say(f"program = {value!r}: {error}")
                return ("program",)
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            return tuple(value)
        self._say('program: expected a line or a list of words, such as "serve.py --port {ports.http}"')
        return ("program",)

    def _ready(self, value: object, ports: Sequence[str]) -> ReadyTest | None:
        if value is None:
            return None
        by, _, target = value.partition(":") if isinstance(value, str) else ("", "", "")
        if by not in get_args(ReadyBy) or not target:
            self._say(f"ready = {value!r}: expected tcp:PORT or http:PORT/PATH")
            return None
        port, _, path = target.partition("/")
        if port not in ports and not (port.isdecimal() and int(port) in PORTS):
            self._say(
                f"ready = {value!r}: {port} is no number, and none of the role's ports ({', '.join(ports) or 'none'})"
            )
        if by == "tcp":
            return ReadyTest("tcp", port)
        return ReadyTest("http", port, f"/{path}")

    def _check_order(self, roles: Sequence[JobRole]) -> None:
        names = {role.name: role for role in roles}
        for role in roles:
            for other in role.after:
                if other not in names:
                    self._say(f"[roles.{role.name}] after = {other!r}: no such role")
        try:
            TopologicalSorter({role.name: role.after for role in roles}).prepare()
        except CycleError as error:
            self._say(f"after: {' after '.join(reversed(error.args[1]))} is a circle")


_PLACE = re.compile(r"\{((?:roles|ports|replica|replicas|role|job)(?:\.[\w.-]+)?)\}")


def filled(words: Sequence[str], values: Mapping[str, str], where: str) -> Argv:
    """Return `words` with {roles.…}, {ports.…} and {replica} replaced. Other braces stay. Raises UsageError."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            known = ", ".join(f"{{{each}}}" for each in values)
            raise UsageError(f"{where}: {{{found[1]}}} is unknown in {quoted(words)}", hint=f"there are: {known}")
        return values[found[1]]

    return tuple(_PLACE.sub(value, word) for word in words)
