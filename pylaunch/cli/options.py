"""Options that several verbs share, parsed once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from pylaunch.errors import UsageError
from pylaunch.model.job import RankOrder
from pylaunch.model.since import parse_since
from pylaunch.model.size import parse_size

inventory = click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path),
    help="Ansible inventory. Without it: pylaunch.toml, then cluster.ini here, then this machine alone.",
)
nodes_know = click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path),
    help="Ask the hosts of this inventory for runs that were started elsewhere.",
)
limit = click.option("--limit", metavar="HOSTS", help="Only these hosts or groups: n1,n3 or gpu[01-03,07].")
as_json = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
rank_order = click.option(
    "--rank-order",
    type=click.Choice([order.value for order in RankOrder]),
    default=RankOrder.INVENTORY.value,
    show_default=True,
    help="Which hosts get neighbouring ranks; topology: those that stand together, as the inventory says.",
)
run = click.argument("run", required=False, metavar="[RUN]")


def words(text: object) -> tuple[str, ...]:
    """The words of a comma-separated option; none when it was not given."""
    return tuple(word.strip() for word in str(text or "").split(",") if word.strip())


def since(option: str, text: str) -> float:
    """The value of `option` in seconds since the epoch. Raises UsageError for what is no moment of the past."""
    try:
        return parse_since(text, datetime.now(UTC).astimezone())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def size(option: str, text: str) -> int:
    """The value of `option` in bytes. Raises UsageError for what is no size."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


@contextlib.contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Where the file that `option` names is written. Raises UsageError when it cannot be."""
    try:
        yield
    except OSError as error:
        hint = "name a file in a directory that is there and may be written"
        raise UsageError(f"{option} {path}: cannot be written: {error.strerror}", hint=hint) from None
