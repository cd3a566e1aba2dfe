"""Who is to blame for connections that fail: a matrix of them, explained by as few hosts as possible. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Pair = tuple[str, str]
"""Who connects, to whom."""


@dataclass(frozen=True)
class Blame:
    """Failed connections that one host explains, or one pair of hosts."""

    incoming: str | None
    """The host that nobody gets through to; None when only connections from `outgoing` fail."""

    outgoing: str | None
    """The host that gets through to nobody. With `incoming` too, it is the one pair of them."""


def blames(failed: Iterable[Pair], measured: Iterable[Pair]) -> tuple[Blame, ...]:
    """The hosts that explain why the pairs `failed` did, among all that were `measured`.

    The host with most failures first, and rather the one that listens than those that connect. A host is blamed when
    *all* that was measured of it failed, for at least two others: of two hosts alone nobody can say which it is.
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
    """For each way in which connections ended: which pairs did so, and on which kinds of port."""
    found: dict[str, dict[Pair, frozenset[str]]] = {}
    for pair, kinds in ends.items():
        for kind, end in kinds.items():
            pairs = found.setdefault(end, {})
            pairs[pair] = pairs.get(pair, frozenset()) | {kind}
    return found
