"""Explain a matrix of failed connections by as few hosts as possible. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass

Pair = tuple[str, str]
"""Source and target of a connection."""


@dataclass(frozen=True)
class Blame:
    """Failed connections that one host or one pair of hosts explains."""

    incoming: str | None
    """The host that cannot be reached; None when only connections from `outgoing` fail."""

    outgoing: str | None
    """The host that cannot connect to others. With `incoming` set too, the two form one pair."""


def blames(failed: Iterable[Pair], measured: Iterable[Pair]) -> tuple[Blame, ...]:
    """Return the hosts that explain why the pairs `failed`, out of all pairs that were `measured`.

    The host with most failures comes first; at a tie, the listening host. A host is blamed only if *all* its measured
    connections failed, with at least two others: between two hosts alone, the cause is unknown.
    """
    unexplained = set(failed)
    lines: dict[Blame, set[Pair]] = {}
    for source, target in measured:
        lines.setdefault(Blame(target, None), set()).add((source, target))
        lines.setdefault(Blame(None, source), set()).add((source, target))
    full = {blame: cells for blame, cells in lines.items() if len(cells) > 1 and cells <= unexplained}
    found: list[Blame] = []
    while full:
        blame = max(full, key=lambda each: (len(full[each] & unexplained), each.incoming is not None))
        if len(full.pop(blame) & unexplained) < 2:
            break
        found.append(blame)
        unexplained -= lines[blame]
    pairs = sorted(unexplained)
    return (*found, *(Blame(target, source) for source, target in pairs))


def grouped(ends: Mapping[Pair, Mapping[str, str]]) -> dict[str, dict[Pair, frozenset[str]]]:
    """Return end of the connection → pairs with that end → their kinds of port."""
    found: dict[str, dict[Pair, frozenset[str]]] = {}
    for pair, kinds in ends.items():
        for kind, end in kinds.items():
            pairs = found.setdefault(end, {})
            pairs[pair] = pairs.get(pair, frozenset()) | {kind}
    return found
