"""State of what roles manage on this host: the module `manifest` records it at the end of a role, later it is compared.

    {"version": 1, "roles": {"time_sync": {"inputs": "4f…", "notes": [], "managed": {"hold": {"curl": "hold"}}}}}

A manifest names files, units, packages and settings to look at, and nothing to run. The module `manifest` of the
Ansible collection uses this file, too. So it imports only the standard library, for Python >= 3.8.
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Callable, List

MOST_BYTES = 1 << 23
"""Largest manifest, and largest file whose content is compared; torch's RECORD has 1.2 MB."""

MOST_ITEMS = 2000
MOST_CHARACTERS = 300
MISSING = "missing"
DEADLINE_S = 20.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@_.:+\\-]*")
"""Names of units and packages; others are not looked for."""

Read = Callable[["Sequence[str]"], List[str]]  # As Python 3.8 has it.


def managed(names: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Return the state of each of `names` (kind → names). Raises ValueError for an unknown kind."""
    if unknown := set(names) - set(KINDS):
        raise ValueError("unknown kinds: " + ", ".join(sorted(unknown)))
    found = {}
    for kind, each in names.items():
        if each:
            wanted = sorted(set(each))
            found[kind] = dict(zip(wanted, KINDS[kind](wanted)))
    return found


def read_manifest(path: str) -> dict[str, Any]:
    """Return role → its entry; {} without a manifest. Raises ValueError for one that is not understood."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            text = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    try:
        roles = json.loads(text)["roles"] if len(text) <= MOST_BYTES else None
    except (ValueError, LookupError, TypeError, RecursionError):
        roles = None
    if not isinstance(roles, dict) or not all(map(_is_entry, roles.values())):
        raise ValueError(path + " is not understood")
    if sum(len(names) for entry in roles.values() for names in entry["managed"].values()) > MOST_ITEMS:
        raise ValueError(f"{path} has more than {MOST_ITEMS} entries")
    return roles


def _is_entry(entry: Any) -> bool:
    try:
        texts = [entry["inputs"], *entry["notes"]]
        for kind, names in entry["managed"].items():
            texts += [kind, *names.keys(), *names.values()]
    except (AttributeError, KeyError, TypeError):
        return False
    return all(isinstance(text, str) for text in texts)


def differences(entry: Mapping[str, Any]) -> list[list[str]]:
    """Return [subject, difference] for what is not as an entry of a manifest records it."""
    recorded = {kind: names for kind, names in entry["managed"].items() if kind in KINDS}
    now = managed(recorded)
    return [
        [subject(kind, name)[:MOST_CHARACTERS], how_differs(then, now[kind][name])[:MOST_CHARACTERS]]
        for kind, names in recorded.items()
        for name, then in names.items()
        if now[kind][name] != then
    ]


def subject(kind: str, name: str) -> str:
    """Return the name of something managed, as people call it."""
    return "package " + name if kind in ("package", "hold") else name.partition("\n")[0]


def how_differs(then: str, now: str) -> str:
    """Return the difference of two states."""
    (before, _, _), (after, _, _) = then.partition(" sha256 "), now.partition(" sha256 ")
    if now == MISSING or now.startswith("not "):
        return now
    if then == MISSING:
        return "is there, and must not be"
    if before != after:
        return f"is {after}, not {before}"
    return "our block differs" if before == "a block" else "content differs"


def _each(look: Callable[[str], str]) -> Read:
    def read(names: Sequence[str]) -> list[str]:
        return [_or_reason(look, name) for name in names]

    return read


def _or_reason(look: Callable[[str], str], name: str) -> str:
    try:
        return look(name)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except (OSError, ValueError) as error:
        return f"not readable ({getattr(error, 'strerror', None) or error})"


def _path(path: str) -> str:
    """Return mode and owner of a file, a directory or a device, and the digest of a file; the target of a link."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return "a link to " + os.readlink(path)
    owner = f"{_named(pwd.getpwuid, status.st_uid)}:{_named(grp.getgrgid, status.st_gid)}"
    text = f"{stat.S_IMODE(status.st_mode):04o} {owner}"
    if not stat.S_ISREG(status.st_mode):
        return f"a directory {text}" if stat.S_ISDIR(status.st_mode) else f"a device {text}"
    return f"{text} sha256 {hashlib.sha256(_content(path)).hexdigest()}"


def _named(lookup: Callable[[int], Any], number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def _content(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError("too large")
    return content


def _block(name: str) -> str:
    """Return the digest of the lines between the markers of `PATH\\nMARKER`, whose {mark} is BEGIN or END."""
    path, _, marker = name.partition("\n")
    lines = _content(path).decode("utf-8", "replace").splitlines()
    try:
        begin = lines.index(marker.replace("{mark}", "BEGIN"))
        end = lines.index(marker.replace("{mark}", "END"), begin)
    except ValueError:
        return MISSING
    return "a block sha256 " + hashlib.sha256("\n".join(lines[begin:end]).encode()).hexdigest()


def _line(name: str) -> str:
    """Return whether a line of `PATH\\nBEGINNING` begins so."""
    path, _, beginning = name.partition("\n")
    lines = _content(path).decode("utf-8", "replace").splitlines()
    found = next((line for line in lines if line.startswith(beginning)), None)
    return f"without a line {beginning!r}" if found is None else f"with the line {' '.join(found.split())!r}"


def _sysctl(key: str) -> str:
    if not re.fullmatch(r"[\w.*/-]+", key) or ".." in key:
        raise ValueError("not a kernel setting")
    with open("/proc/sys/" + key.replace(".", "/"), encoding="utf-8", errors="replace") as file:
        return " ".join(file.read(MOST_CHARACTERS).split())


def _environment(path: str) -> str:
    """Return the digest of the distributions in a Python environment, from their records."""
    if not os.access(os.path.join(path, "bin", "python"), os.X_OK):
        return "without an interpreter" if os.path.isdir(path) else MISSING
    digest = hashlib.sha256()
    for python in sorted(os.listdir(os.path.join(path, "lib"))):
        packages = os.path.join(path, "lib", python, "site-packages")
        for name in sorted(os.listdir(packages)):
            record = os.path.join(packages, name, "RECORD")
            if name.endswith(".dist-info") and os.path.exists(record):
                digest.update(name.encode() + b"\0" + hashlib.sha256(_content(record)).digest())
    return "an environment sha256 " + digest.hexdigest()


def _route(address: str) -> str:
    """Return the interface over which the kernel reaches an address."""
    words = _output(["ip", "-oneline", "route", "get"], [address]).split()
    return f"over {words[words.index('dev') + 1]}" if "dev" in words[:-1] else MISSING


def _units(names: Sequence[str]) -> list[str]:
    output = _output(["systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState", "--"], names)
    shown = [dict(line.partition("=")[::2] for line in unit.splitlines()) for unit in output.strip().split("\n\n")]
    states = iter(shown)
    found = []
    for name in names:
        unit = next(states, {}) if _NAME.fullmatch(name) else {}
        is_there = unit.get("LoadState", "not-found") != "not-found"
        found.append(f"{unit['UnitFileState'] or 'static'} and {unit['ActiveState']}" if is_there else MISSING)
    return found


def _dpkg(field: str) -> Read:
    """Return a function that reads a field of packages."""

    def read(names: Sequence[str]) -> list[str]:
        output = _output(["dpkg-query", "--show", "--showformat", "${Package} ${" + field + "}\n", "--"], names)
        found = {row[0]: row[1] for row in map(str.split, output.splitlines()) if len(row) == 2}
        return [found.get(name, "not installed") for name in names]

    return read


def _output(words: list[str], names: Sequence[str]) -> str:
    """Return the output of a program about names of units or packages; "" where it is not installed."""
    named = [name for name in names if _NAME.fullmatch(name)]
    try:
        done = subprocess.run(
            [*words, *named], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"}, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


KINDS: dict[str, Read] = {
    "file": _each(_path),
    "path": _each(_path),
    "block": _each(_block),
    "line": _each(_line),
    "sysctl": _each(_sysctl),
    "environment": _each(_environment),
    "route": _each(_route),
    "unit": _units,
    "package": _dpkg("db:Status-Status"),
    "hold": _dpkg("db:Status-Want"),
}
"""Kinds of what is managed, each with how its state is read."""
