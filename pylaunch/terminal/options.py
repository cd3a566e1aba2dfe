"""Options that several verbs share, parsed once."""

import contextlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import click
from click.shell_completion import CompletionItem

from pylaunch.errors import ExitCode, PylaunchError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import host_list
from pylaunch.model.plan import base_of
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.size import parse_size, shown_size
from pylaunch.store import runs
from pylaunch.terminal import document
from pylaunch.terminal.option import Group, GroupedOption

F = TypeVar("F", bound=Callable[..., object])
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
        raise UsageError(f"-i {value} and -H {hosts}: one of them", hint=f"-i {value} --limit {quoted((hosts,))}")
    if value is not None:
        document.current().inventory = ("-i", str(value))
    if hosts is not None:
        document.current().inventory = ("-H", hosts)
        try:
            value = Path(host_list(hosts))
        except ValueError as error:
            written = f"pylaunch init {quoted((hosts,))}" if "@" in hosts else "-H gpu01,gpu02 or -H 'gpu[01-02]'"
            raise UsageError(f"-H {hosts}: {error}", hint=written) from None
    document.current().source = value
    return value


inventory = _inventory("Ansible inventory. Without it: pylaunch.toml, then cluster.ini here, then this machine alone.")
nodes_know = _inventory("Inventory with today's addresses of the hosts; also finds runs that were started elsewhere.")


def _hosts_to_complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the last word of a limit with hosts of the inventory; none where it cannot be read."""
    before, comma, beginning = incomplete.rpartition(",")
    try:
        names = load_cluster(context.params.get("inventory")).names
    except PylaunchError:
        return []
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(beginning)]


def _runs_to_complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete with runs that are recorded here, the newest first."""
    known = dict.fromkeys(base_of(each) for each in runs.ids())
    return [CompletionItem(each) for each in known if each.startswith(incomplete)]


limit = click.option(
    "--limit",
    cls=GroupedOption,
    group=Group.WHERE,
    metavar="HOSTS",
    multiple=True,
    callback=_joined,
    shell_complete=_hosts_to_complete,
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
    document.current().as_json = value
    return value


as_json = click.option(
    "--json",
    "as_json",
    cls=GroupedOption,
    group=Group.FOLLOWING,
    is_flag=True,
    is_eager=True,
    callback=_wants_json,
    help="One JSON document on stdout.",
)
exit_code = click.option(
    "--exit-code", is_flag=True, help=f"Exit with {int(ExitCode.DIFFERENT)} when something differs."
)
run = click.argument("run", required=False, metavar="[RUN]", shell_complete=_runs_to_complete)
role = click.option("--role", metavar="NAME", help="RUN is a job of several roles: only the runs of this role.")


def output(help_text: str) -> Callable[[F], F]:
    """Return the option that names the file a command writes."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=help_text
    )


def words(text: object) -> tuple[str, ...]:
    """Split a comma-separated option; empty when it was not given."""
    return tuple(word.strip() for word in str(text or "").split(",") if word.strip())


def since(option: str, text: str) -> float:
    """Parse the value of `option` into seconds since the epoch. Raises UsageError."""
    try:
        return parse_since(text, datetime.now(UTC).astimezone())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


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
        raise UsageError(f"{named}: cannot be read: {error.strerror}") from None
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


ACCEPTED = (
    "expected how long ago, such as 90s, 10m or 1h30m, or when, such as 2026-03-01T14:30 (here) or …T14:30Z (UTC)"
)

_AGO = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_since(text: str, now: datetime) -> float:
    """Return the moment that `text` means, in seconds since the epoch; a time without a zone is one of this machine's.

    Raises ValueError for anything else, and for a moment after `now`.
    """
    moment = _moment(text.strip(), now)
    if moment > now:
        raise ValueError(f"{text} has not come yet: it is {now.isoformat(timespec='seconds')}")
    return moment.timestamp()


def _moment(text: str, now: datetime) -> datetime:
    ago = _AGO.fullmatch(text)
    try:
        if text and ago is not None:
            days, hours, minutes, seconds = (int(number or 0) for number in ago.groups())
            return now - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(f"{ACCEPTED}; got {text!r}") from None
