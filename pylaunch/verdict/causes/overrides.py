"""Variables by which ranks meet, with other values than pylaunch gave them, in ranks that do not meet. Pure.

A script may override them on all ranks in a way that works. So they explain a wait only while ranks still wait for
each other to begin, or are in groups that lack members, and a failure only where a rank failed to meet the others. They
are sure only if the ranks do not agree with each other. A rank is named only if others are known to use the values that
pylaunch gave them: ranks that still import a library may override the same ones.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold, named_ranks
from pylaunch.protocol.examination import OverriddenVariable, RankView
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.hangs.stacks import distributed_call

BEGIN = "init_process_group"
"""Function in which the ranks of torch meet."""

ARGUMENTS = {"MASTER_ADDR": "address", "MASTER_PORT": "port", "RANK": "rank", "WORLD_SIZE": "world size"}
NUMBERS = ("RANK", "WORLD_SIZE")
"""Variables that a group of torch shows, too. Where ranks met is unknown afterwards."""

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
    named: tuple[int, ...]
    """() unless the finding is sure, and other ranks are known to use the values that they got."""

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
    if not groups or not (any(rank.fails for rank in all_ranks) or _have_incomplete_groups(all_ranks, world_size)):
        return None
    others = {name: _with_given_value(all_ranks, name) for name, _, _ in groups}
    unknown = {name: _unknown(all_ranks, name, world_size) for name in others}

    def order(group: tuple[str, str, bool]) -> tuple[bool, int, bool, int]:
        is_doubtful, count = not others[group[0]] and bool(unknown[group[0]]), len(groups[group])
        is_common_place = count == world_size and group[0] not in NUMBERS  # There, ranks can meet.
        return is_doubtful, count, is_common_place, [*ARGUMENTS].index(group[0])

    ordered = sorted(groups, key=order)
    lines = [_line(groups[group], group[0]) for group in ordered]
    (name, _, _), first = ordered[0], groups[ordered[0]]
    # Ranks whose numbers are unknown may be the other members of a second group.
    is_clear = not unknown[name] or (bool(others[name]) and name not in NUMBERS)
    is_known = is_clear or any(_contradicts_itself(each, world_size) for each in first)
    is_sure = is_known and not _agree(all_ranks, world_size)
    if not others[name] and unknown[name]:
        lines[0] += f"; the values of {named_ranks(unknown[name])} are unknown"
    return OverrideFinding(
        lines[0], tuple(each.rank for each in first) if is_sure and others[name] else (),
        tuple(sorted({each.host for each in first})), tuple(lines[:MOST_LINES]), is_sure,
    )  # fmt: skip


def _with_given_value(ranks: Iterable[Meeting], name: str) -> list[Meeting]:
    """Return the ranks that are known to use the value of `name` that they got."""
    return [rank for rank in ranks if _of(rank, name) is None and (rank.fails or name in NUMBERS)]


def _unknown(ranks: Sequence[Meeting], name: str, world_size: int) -> list[int]:
    """Return the ranks of which nothing shows the value of `name` that they use."""
    known = {rank.rank for rank in ranks if rank.fails or name in NUMBERS or _of(rank, name) is not None}
    return sorted({*range(world_size)} - known)


def _have_incomplete_groups(ranks: Sequence[Meeting], world_size: int) -> bool:
    """Return True if all ranks are in groups, and a group of some size lacks a member or has one too often."""
    if len(ranks) < world_size:
        return False
    members: dict[int, Counter[int]] = {}
    for rank in ranks:
        number, size = _numbers(rank, world_size)
        if not number.isdecimal() or not size.isdecimal():
            return False
        members.setdefault(int(size), Counter())[int(number)] += 1
    return any(len(counts) != size or len({*counts.values()}) > 1 for size, counts in members.items())


def connected_elsewhere(ends: Iterable[RankEnd], address: str) -> OverrideFinding | None:
    """Return the ranks whose last lines name another place of the store than `address`; None if there are none."""
    found: dict[str, list[RankEnd]] = {}
    is_alone = False
    for end in ends:
        places = {match[1] for line in end.last_lines for match in _CONNECTED.finditer(line[:LONGEST_LINE])}
        is_alone = is_alone or places == {address}
        if end.rank is not None and len(places) == 1 and address not in places:
            found.setdefault(places.pop(), []).append(end)
    if not found or not address:
        return None
    place, first = min(found.items(), key=lambda item: len(item[1]))
    ranks, hosts = [end.rank for end in first if end.rank is not None], [end.host for end in first]
    what = f"{'connect' if ranks[1:] else 'connects'} to the store at {place[:LONGEST]}"
    text = f"{_who(ranks, hosts)} {what}, but the run's MASTER_ADDR is {address}"
    return OverrideFinding(text, tuple(ranks) if is_alone else (), tuple(sorted({*hosts})), (), is_sure=True)


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


def _numbers(rank: Meeting, world_size: int) -> tuple[str, str]:
    """Return the rank and the world size that `rank` uses."""
    values = {each.name: each.used for each in rank.overrides}
    return values.get("RANK", str(rank.rank)), values.get("WORLD_SIZE", str(world_size))


def _contradicts_itself(rank: Meeting, world_size: int) -> bool:
    """Return True if `rank` can meet nobody, whatever values the others use."""
    number, size = _numbers(rank, world_size)
    return not number.isdecimal() or not size.isdecimal() or int(number) >= int(size)


def _agree(ranks: Sequence[Meeting], world_size: int) -> bool:
    """Return True if ranks that use these values can meet each other."""
    if any(_contradicts_itself(rank, world_size) for rank in ranks):
        return False
    numbers, sizes = zip(*(_numbers(rank, world_size) for rank in ranks), strict=True)
    if {*sizes} == {"1"}:
        return True  # Each rank meets nobody.
    if max(map(int, sizes)) > world_size or len({*sizes}) > 1 or len({*numbers}) < len(numbers):
        return False
    store = next((rank.host for rank, number in zip(ranks, numbers, strict=True) if number == "0"), None)
    places = {_place(rank, store) for rank in ranks if rank.fails}
    is_local = any(address.startswith(LOOPBACK) for address, _ in places)
    return len(places) <= 1 and not (is_local and (store is not None or len({rank.host for rank in ranks}) > 1))


def _place(rank: Meeting, store: str | None) -> tuple[str, str]:
    """Return the other address and port that `rank` uses. On the host `store`, a loopback address reaches the store."""
    address, port = ((each.used if (each := _of(rank, name)) else "") for name in ("MASTER_ADDR", "MASTER_PORT"))
    return "" if rank.host == store and address.startswith(LOOPBACK) else address, port
