"""Variables by which ranks meet, with other values than pylaunch gave them, in ranks that wait for the others. Pure.

A script may override them on all ranks in a way that works. So they explain a wait only while ranks still wait for
each other to begin, and they are sure only if the ranks do not agree with each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.explain.hangs.stacks import distributed_call
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.protocol.examination import OverriddenVariable, RankView
from pylaunch.protocol.node_evidence import RankEnd

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


def overridden(views: Iterable[RankView], world_size: int) -> OverrideFinding | None:
    """Return the variables that ranks override while they wait for others to begin; None if nobody does."""
    waiting = [view for view in views if distributed_call(view) == BEGIN]
    groups: dict[tuple[str, str, bool], list[RankView]] = {}
    for view in waiting:
        for each in view.overrides:
            value = "" if each.name == "RANK" else each.used
            groups.setdefault((each.name, value, each.is_argument), []).append(view)
    if not groups:
        return None
    ordered = sorted(groups.items(), key=lambda item: (len(item[1]), [*ARGUMENTS].index(item[0][0])))
    lines = [_line(found, name) for (name, _, _), found in ordered]
    first = ordered[0][1]
    return OverrideFinding(
        lines[0], tuple(view.rank for view in first), tuple(sorted({view.host for view in first})),
        tuple(lines[:MOST_LINES]), not _agree(waiting, world_size),
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
    return f"{'ranks' if ranks[1:] else 'rank'} {fold_ranks(ranks)} on {fold({*hosts})}"


def _of(view: RankView, name: str) -> OverriddenVariable | None:
    return next((each for each in view.overrides if each.name == name), None)


def _line(views: Sequence[RankView], name: str) -> str:
    """Return "rank 1 on n2 uses MASTER_ADDR=127.0.0.1, but the run's is 10.0.0.1"."""
    one, several = views[0], len(views) > 1
    found = _of(one, name)
    assert found is not None
    value = found.used[:LONGEST]
    who = _who([view.rank for view in views], [view.host for view in views])
    each = f" (rank {one.rank})" if several and name == "RANK" else ""
    if found.is_argument:
        what = f"{'pass' if several else 'passes'} {ARGUMENTS[name]} {value} to {BEGIN}"
    else:
        what = f"{'use' if several else 'uses'} {name}={value}"
    its = f"pylaunch gave it {found.given}" if name == "RANK" else f"the run's is {found.given[:LONGEST]}"
    return f"{who} {what}{each}, but {its}"


def _agree(views: Sequence[RankView], world_size: int) -> bool:
    """Return True if ranks that use these values can meet each other."""
    ranks, places = [], set()
    for view in views:
        values = {each.name: each.used for each in view.overrides}
        ranks.append(values.get("RANK", str(view.rank)))
        places.add(tuple(values.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")))
        if values.get("WORLD_SIZE", "0").isdigit() and int(values.get("WORLD_SIZE", "0")) > world_size:
            return False
    is_local = any(address.startswith(LOOPBACK) for address, _, _ in places) and len({view.host for view in views}) > 1
    return len(places) == 1 and len({*ranks}) == len(ranks) and not is_local
