"""Options: what an option of a start is, declared once, in `StartFlags` or by a feature; those that verbs share; the
invocation that they fill."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import click

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import PylaunchError, UsageError
from pylaunch.inventory.load import host_list
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.model.text.quantity import parse_size, shown_size
from pylaunch.terminal.doors import Verb

F = TypeVar("F", bound=Callable[..., object])


@dataclass
class Invocation:
    """One call of `pylaunch`: `main` creates it, options fill it, and `main` reads it at the end."""

    verb: str = ""
    inventory: Argv = ()
    """Words that named the inventory, as typed: ("-i", "../cluster.ini"); empty without them."""

    source: Path | None = None
    """Path of that inventory."""

    has_slurm_nodes: bool = False
    """Its hosts are nodes of a Slurm job, on which this user provisions nothing."""

    as_json: bool = False
    document: Mapping[str, object] | None = None
    """Document of the verb for --json, printed at the end."""

    printed_error: PylaunchError | None = None
    """Error that the background process of this command has printed: it belongs to the document."""

    verbs: Mapping[str, Verb] = field(default_factory=dict)
    """All verbs."""

    is_stream: bool = False
    """Documents are printed one a line."""


def current() -> Invocation:
    """Return the invocation that runs; an empty one outside of a command."""
    context = click.get_current_context(silent=True)
    return (context.find_object(Invocation) if context is not None else None) or Invocation()


class Group(Enum):
    """Headings in the help of `start`, in their order: those that a newcomer needs first."""

    FIRST = "First"
    WHERE = "Where"
    WHAT = "What"
    CODE = "Code and environment"
    CONTAINER = "Container"
    FAILURE = "When it fails"
    HANG = "When it hangs"
    FOLLOWING = "Following"
    SLURM = "Slurm"
    OTHER = "Other"


class InJobFile(Enum):
    """Place of an option of `start` in a job of several roles."""

    ROLE = "role"
    """A key of each role; on the command line it holds for all of them."""

    WHOLE = "whole"
    """An option of the command line for the job as a whole."""

    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of `start`, and of the verbs that plan or follow a job as it does.

    Its decorator, its place in the help, in the reference, in a job file and in `rerun` are derived from it.
    """

    help: str
    group: Group
    name: str = ""
    """Parameter: "max_restarts" for --max-restarts."""

    default: Any = None
    parse: Callable[[str], Any] | None = None
    """Return the value of a text. Raises ValueError with what was expected."""

    choices: tuple[str, ...] = ()
    metavar: str | None = None
    short: str = ""
    multiple: bool = False
    field: str = ""
    """Field of JobSpec that has the value; its default is that of the option."""

    none: str = ""
    """None in words."""

    verbs: tuple[str, ...] = ("start",)
    in_job_file: InJobFile = InJobFile.ROLE

    @property
    def typed(self) -> str:
        """The option as it is typed."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def shown_default(self) -> str:
        """The default in words; "" for none."""
        return "" if self.is_flag or self.multiple else shown_value(self.default) or self.none

    @property
    def is_flag(self) -> bool:
        """It takes no value."""
        return isinstance(self.default, bool)

    def value(self, text: str) -> Any:
        """Return the value of `text`. Raises ValueError."""
        return text if self.parse is None else self.parse(text)

    def add_to(self, command: F) -> F:
        """Add it to a command of click."""
        words = f"{self.help}  [default: {self.shown_default}]" if self.shown_default else self.help
        given: dict[str, Any] = {"metavar": self.metavar} if self.metavar else {}
        if self.is_flag:
            given["is_flag"] = True
        elif self.choices:
            given["type"] = click.Choice(self.choices)
        if self.parse is not None:
            given["callback"] = self._parsed
        default = shown_value(self.default) or None if self.parse is not None else self.default
        names = (*([self.short] if self.short else []), self.typed, self.name)
        return click.option(
            *names, cls=GroupedOption, group=self.group, multiple=self.multiple, default=default, help=words, **given
        )(command)

    def _parsed(self, context: click.Context, _: click.Parameter, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return self.value(value)
        except ValueError as error:
            raise UsageError(f"{self.typed} {value}: {error}", hint=f"{context.command_path} --help") from None


class GroupedOption(click.Option):
    """An option that is shown below a heading."""

    def __init__(self, *names: Any, group: Group = Group.OTHER, **given: Any) -> None:
        super().__init__(*names, **given)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help shows its options below headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group with its options in the order of their declaration."""
        shown: dict[Group, list[tuple[str, str]]] = {group: [] for group in Group}
        for each in self.get_params(ctx):
            row = each.get_help_record(ctx) if isinstance(each, click.Option) else None
            if row is not None:
                shown[each.group if isinstance(each, GroupedOption) else Group.OTHER].append(row)
        for group, rows in shown.items():
            if rows:
                with formatter.section(group.value):
                    formatter.write_dl(rows)


def shown_value(value: object) -> str:
    """Return the value of an option as it is typed; "" for None."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}"
    return "" if value is None else str(value.value if isinstance(value, Enum) else value)


def as_json_value(value: object) -> object:
    """Return the value of an option for a record or a document."""
    if isinstance(value, tuple | list):
        return [as_json_value(each) for each in value]
    if isinstance(value, Mapping):
        return {name: as_json_value(each) for name, each in value.items()}
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if value is None or isinstance(value, bool | int | float | str) else shown_value(value)


def whole(text: str) -> int:
    """Return a whole number. Raises ValueError."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def seconds(text: str) -> timedelta:
    """Return a duration in seconds. Raises ValueError."""
    try:
        return timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        raise ValueError("expected a number of seconds") from None


def added(options: Sequence[Option]) -> Callable[[F], F]:
    """Return a decorator that adds `options` to a command, in this order."""

    def with_options(command: F) -> F:
        for each in reversed(options):
            command = each.add_to(command)
        return command

    return with_options


_HOSTS = "pylaunch.hosts"
LARGEST_TEXT = 1 << 20
"""Bytes of the largest text file that a command line may name."""


def _inventory(help_text: str) -> Callable[[F], F]:
    """Add -i and -H, which both name the inventory."""

    def options(command: F) -> F:
        named = click.option(
            "-i",
            "--inventory",
            cls=GroupedOption,
            group=Group.FIRST,
            type=click.Path(path_type=Path),
            callback=_named,
            metavar="PATH|HOST,…",
            help=help_text,
        )
        hosts = click.option(
            "-H",
            "--hosts",
            cls=GroupedOption,
            group=Group.FIRST,
            metavar="HOSTS",
            multiple=True,
            expose_value=False,
            is_eager=True,  # Its value must be known when that of -i is judged.
            callback=_kept,
            help="These hosts, without an inventory file: gpu01,gpu02 or gpu[01-04].",
        )
        return named(hosts(command))

    return options


def _joined(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return the values of an option as one list; None without the option, as an empty value is no default."""
    return ",".join(values) if values else None


def _kept(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    context.meta[_HOSTS] = _joined(context, option, values)


def _named(context: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    """Return the inventory of the command line, and keep the words for hints."""
    hosts = context.meta[_HOSTS]
    if hosts is not None and value is not None:
        raise UsageError(f"-i {value} and -H {hosts}: one of them", hint=quoted(("-i", str(value), "--limit", hosts)))
    if value is not None:
        current().inventory = ("-i", str(value))
    if hosts is not None:
        current().inventory = ("-H", hosts)
        try:
            value = Path(host_list(hosts))
        except ValueError as error:
            written = f"pylaunch init {quoted((hosts,))}" if "@" in hosts else "-H gpu01,gpu02 or -H 'gpu[01-02]'"
            raise UsageError(f"-H {hosts}: {error}", hint=written) from None
    current().source = value
    return value


inventory = _inventory("Ansible inventory. Without it: pylaunch.toml, then cluster.ini here, then this machine alone.")
nodes_know = _inventory("Inventory with today's addresses of the hosts; also finds runs that were started elsewhere.")


limit = click.option(
    "--limit",
    cls=GroupedOption,
    group=Group.WHERE,
    metavar="HOSTS",
    multiple=True,
    callback=_joined,
    help="Only these hosts or groups: n1,n3, gpu[01-03,07], 'gpu*' or '!gpu03'.",
)

ranks = click.option("--rank", metavar="RANKS", multiple=True, callback=_joined, help="Only these ranks: 3 or 0-3,7.")
on_nodes = click.option(
    "--node",
    metavar="HOSTS",
    multiple=True,
    callback=_joined,
    help="Only ranks on these nodes: n1,n3 or gpu[01-03,07].",
)


def _wants_json(_: click.Context, __: click.Parameter, value: bool) -> bool:
    current().as_json = value
    return value


as_json = click.option(
    "--json",
    "as_json",
    cls=GroupedOption,
    group=Group.FOLLOWING,
    is_flag=True,
    is_eager=True,
    callback=_wants_json,
    help="JSON on stdout, as pylaunch help json describes.",
)
run = click.argument("run", required=False, metavar="[RUN]")


def output(help_text: str) -> Callable[[F], F]:
    """Return the option that names the file a command writes."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=help_text
    )


def words(text: object) -> tuple[str, ...]:
    """Split a comma-separated option; empty when it was not given."""
    return tuple(word.strip() for word in str(text or "").split(",") if word.strip())


def size_option(option: str, text: str) -> int:
    """Parse the value of `option` into bytes. Raises UsageError."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


LEAST_RATE = 64 << 10


def limit_rate(help_text: str) -> Callable[[F], F]:
    """Return the option whose value is a number of bytes per second; 0 for no limit."""
    return click.option("--limit-rate", metavar="RATE", callback=_rate, help=help_text)


def _rate(_: click.Context, __: click.Parameter, text: str | None) -> int:
    if text is None:
        return 0
    rate = size_option("--limit-rate", text)
    if rate < LEAST_RATE:
        raise UsageError(f"--limit-rate {text}: less than 64 KiB per second", hint="--limit-rate 10MB")
    return rate


def text_of(path: str, option: str = "") -> str:
    """Return the text of the file that `option` names. Raises UsageError for one of more than LARGEST_TEXT bytes."""
    named = f"{option} {path}".strip()
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_TEXT + 1)
        if len(data) > LARGEST_TEXT:
            raise UsageError(f"{named}: larger than {shown_size(LARGEST_TEXT)}")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"{named}: cannot be read: {error.strerror}", hint="what a job file has: pylaunch help roles"
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{named}: not UTF-8 at byte {error.start}") from None


@contextlib.contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Raise UsageError when the body fails to write the file that `option` names."""
    try:
        yield
    except OSError as error:
        hint = "name a file in a directory that is there and may be written"
        raise UsageError(f"{option} {path}: cannot be written: {error.strerror}", hint=hint) from None
