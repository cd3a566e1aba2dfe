"""Variables by which ranks meet, with other values than pylaunch gave them, in ranks that do not meet. Pure.

A script may override them on all ranks in a way that works. So they explain a wait only while ranks still wait for
each other to begin, and a failure only where a rank failed to meet the others. They are sure only if the ranks do not
agree with each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold, named_ranks
from pylaunch.protocol.examination import OverriddenVariable, RankView
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.hangs.stacks import distributed_call

BEGIN = "init_process_group"
"""Function in which the ranks of torch meet."""

ARGUMENTS = {"MASTER_ADDR": "address", "MASTER_PORT": "port", "RANK": "rank", "WORLD_SIZE": "world size"}
LOOPBACK = ("127.", "localhost", "::1")
_CONNECTED = re.compile(r"(?:connect to|network addresses of) \(([^\s,()]{1,253}), (\d{1,5})\)")
"""Texts of torch's TCPStore about the place of the store."""

LONGEST = 100
LONGEST_LINE = 2000
MOST_LINES = 6


@dataclass(frozen=True)
class OverrideFinding:
    """Ranks that use other values than they got."""

    text: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    lines: tuple[str, ...]
    is_sure: bool
    """The values of the ranks contradict each other, or reach no other host."""


@dataclass(frozen=True)
class Meeting:
    """Values by which one rank meets the others."""

    rank: int
    host: str
    overrides: tuple[OverriddenVariable, ...]
    fails: bool
    """It waits for the others to begin, or failed while it did."""


def meetings(views: Iterable[RankView], ends: Iterable[RankEnd] = ()) -> list[Meeting]:
    """Return how ranks meet that wait for the others, have met them, or have ended; what a rank did last counts."""
    found = {
        view.rank: Meeting(view.rank, view.host, view.overrides, distributed_call(view) == BEGIN)
        for view in views
        if view.groups or distributed_call(view) == BEGIN
    }
    for end in ends:
        if end.rank is not None and (end.failed_to_meet or end.overrides):
            found[end.rank] = Meeting(end.rank, end.host, end.overrides, end.failed_to_meet)
    return [found[rank] for rank in sorted(found)]


def overridden(ranks: Iterable[Meeting], world_size: int) -> OverrideFinding | None:
    """Return the variables that ranks override while one of them does not meet the others; None if nobody does."""
    all_ranks = [*ranks]
    groups: dict[tuple[str, str, bool], list[Meeting]] = {}
    for rank in all_ranks:
        for each in rank.overrides:
            value = "" if each.name == "RANK" else each.used
            groups.setdefault((each.name, value, each.is_argument), []).append(rank)
    if not groups or not any(rank.fails for rank in all_ranks):
        return None
    ordered = sorted(groups.items(), key=lambda item: (len(item[1]), [*ARGUMENTS].index(item[0][0])))
    lines = [_line(found, name) for (name, _, _), found in ordered]
    first = ordered[0][1]
    return OverrideFinding(
        lines[0], tuple(each.rank for each in first), tuple(sorted({each.host for each in first})),
        tuple(lines[:MOST_LINES]), not _agree(all_ranks, world_size),
    )  # fmt: skip


def connected_elsewhere(ends: Iterable[RankEnd], address: str) -> OverrideFinding | None:
    """Return the ranks whose last lines name another place of the store than `address`; None if there are none."""
    found: dict[str, list[RankEnd]] = {}
    for end in ends:
        places = {match[1] for line in end.last_lines for match in _CONNECTED.finditer(line[:LONGEST_LINE])}
        if end.rank is not None and len(places) == 1 and address not in places:
            found.setdefault(places.pop(), []).append(end)
    if not found or not address:
        return None
    place, first = min(found.items(), key=lambda item: len(item[1]))
    ranks, hosts = [end.rank for end in first if end.rank is not None], [end.host for end in first]
    what = f"{'connect' if ranks[1:] else 'connects'} to the store at {place[:LONGEST]}"
    text = f"{_who(ranks, hosts)} {what}, but the run's MASTER_ADDR is {address}"
    return OverrideFinding(text, tuple(ranks), tuple(sorted({*hosts})), (), is_sure=True)


def _who(ranks: Sequence[int], hosts: Iterable[str]) -> str:
    return f"{named_ranks(ranks)} on {fold({*hosts})}"


def _of(rank: Meeting, name: str) -> OverriddenVariable | None:
    return next((each for each in rank.overrides if each.name == name), None)


def _line(ranks: Sequence[Meeting], name: str) -> str:
    """Return "rank 1 on n2 uses MASTER_ADDR=127.0.0.1, but the run's is 10.0.0.1"."""
    one, several = ranks[0], len(ranks) > 1
    found = _of(one, name)
    assert found is not None
    value = found.used[:LONGEST]
    who = _who([each.rank for each in ranks], [each.host for each in ranks])
    each = f" (rank {one.rank})" if several and name == "RANK" else ""
    if found.is_argument:
        what = f"{'pass' if several else 'passes'} {ARGUMENTS[name]} {value} to {BEGIN}"
    else:
        what = f"{'use' if several else 'uses'} {name}={value}"
    its = f"pylaunch gave it {found.given}" if name == "RANK" else f"the run's is {found.given[:LONGEST]}"
    return f"{who} {what}{each}, but {its}"


def _agree(ranks: Sequence[Meeting], world_size: int) -> bool:
    """Return True if ranks that use these values can meet each other."""
    numbers, places = [], set()
    for rank in ranks:
        values = {each.name: each.used for each in rank.overrides}
        number, size = values.get("RANK", str(rank.rank)), values.get("WORLD_SIZE", str(world_size))
        numbers.append(number)
        places.add(tuple(values.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")))
        if not number.isdecimal() or not size.isdecimal() or not int(number) < int(size) <= world_size:
            return False
    if all(size == "1" for _, _, size in places):
        return True  # Each rank meets nobody.
    is_local = any(address.startswith(LOOPBACK) for address, _, _ in places) and len({each.host for each in ranks}) > 1
    return len(places) == 1 and len({*numbers}) == len(numbers) and not is_local
