"""What an option of a start is: declared once, in `StartFlags` or by a feature; all else is derived from it."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ExitCode, UsageError
from pylaunch.model.text.argv import pylaunch
from pylaunch.terminal import console

F = TypeVar("F", bound=Callable[..., object])


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

    kind: Any = None
    """Type of click, in place of `parse`."""

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
    is_repeated: bool = False
    """`rerun` gives it again: it is in no job and no plan."""

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

    def recorded_value(self, value: Any) -> Any:
        """Return the value of `as_json_value` as one of this option."""
        if isinstance(value, list):
            return tuple(value)
        return value if value is None or self.kind is None else self.kind(value)

    def add_to(self, command: F) -> F:
        """Add it to a command of click."""
        words = f"{self.help}  [default: {self.shown_default}]" if self.shown_default else self.help
        given: dict[str, Any] = {"metavar": self.metavar} if self.metavar else {}
        if self.is_flag:
            given["is_flag"] = True
        elif self.choices:
            given["type"] = click.Choice(self.choices)
        elif self.kind is not None:
            given["type"] = self.kind
        if self.parse is not None:
            given["callback"] = self._parsed
        default = shown_value(self.default) or None if self.parse is not None else self.default
        names = (*([self.short] if self.short else []), self.typed, self.name)
        return click.option(
            *names, cls=GroupedOption, group=self.group, multiple=self.multiple, default=default, help=words, **given
        )(command)

    def _parsed(self, _: click.Context, __: click.Parameter, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return self.value(value)
        except ValueError as error:
            raise UsageError(f"{self.typed} {value}: {error}") from None


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


class CommandGroup(click.Group):
    """A group that suggests similar names for a misspelt subcommand, and prints its help where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Without a subcommand, print the help and exit with 2."""
        if not args and not ctx.resilient_parsing:
            console.say(ctx.get_help())
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does. Raises UsageError for an unknown subcommand."""
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-")) and self.get_command(ctx, name) is None:
            raise UsageError(f"no such command: {ctx.command_path} {name}", hint=self._hint(ctx, args))
        return super().resolve_command(ctx, args)

    def _hint(self, ctx: click.Context, args: list[str]) -> str:
        """Return the command that takes the line of another launcher, or those with a similar name."""
        from pylaunch.model.pasted import LAUNCHERS  # noqa: PLC0415 -- only for an unknown command

        name = args[0]
        if any(" ".join(args).startswith(f"{launcher} ") for launcher in LAUNCHERS):
            return pylaunch("start", "--", *args)
        near = difflib.get_close_matches(name, self.list_commands(ctx), n=3)
        return (
            f"did you mean {' or '.join(f'{ctx.command_path} {each}' for each in near)}?"
            if near
            else f"{ctx.command_path} --help"
        )
