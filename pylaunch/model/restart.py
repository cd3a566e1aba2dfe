"""What comes after an attempt that failed: another one, on which hosts, or the end. Pure; times are seconds.

A host that was lost, refused, or brought two attempts in a row down is left out for a while, twice as long each time.
A spare takes its place, in its place of the rank order. What makes no progress is not tried for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome, Status

FRUITLESS = 3
"""So many attempts in a row without progress are a crash loop."""

PROGRESS_S = 120.0
"""An attempt whose ranks mark no progress made some if it ran this long: longer than importing and failing takes."""

COOL_DOWN_S = 600.0
"""How long a host is left out the first time."""


@dataclass(frozen=True)
class Policy:
    """What the user allows."""

    max_restarts: int
    nodes: int
    """How many hosts a world has."""

    min_nodes: int
    """How few are still worth going on with."""


@dataclass(frozen=True)
class Attempt:
    """One try, over."""

    hosts: tuple[str, ...]
    """In rank order."""

    outcome: Outcome
    ran_s: float
    """From the release to the end; 0 when nothing was released."""

    refused: tuple[str, ...] = ()
    """Hosts that could not take part, when no rank was started."""

    progress: int | None = None
    """The furthest step that a rank has marked."""

    @property
    def culprits(self) -> tuple[str, ...]:
        """Hosts that brought it down: those that were lost or refused, else the host of the first failure."""
        gone = tuple(host for host in self.hosts if host in self.outcome.unproven or host in self.refused)
        if gone or self.outcome.first_failure is None:
            return gone
        return (self.outcome.first_failure.host,)


@dataclass(frozen=True)
class Again:
    """Try again on these hosts, in rank order."""

    hosts: tuple[str, ...]
    why: str
    """What changed, in one line; "" when nothing did."""


@dataclass(frozen=True)
class Over:
    """No further attempt."""

    why: str
    """In one line; "" when the last attempt ended as it should."""


def next_attempt(
    policy: Policy, hosts: Sequence[str], attempts: Sequence[tuple[float, Attempt]], now: float
) -> Again | Over:
    """What follows `attempts` (when each ended, and how), the first first. `hosts` are all, spares last."""
    last = attempts[-1][1]
    if last.outcome.status in (Status.DONE, Status.STOPPED) or last.outcome.by_hand:
        return Over("")
    if last.outcome.status is Status.REFUSED and not last.refused:
        return Over("")
    if len(attempts) > policy.max_restarts:
        return Over(f"all {policy.max_restarts} restarts are used up" if policy.max_restarts else "")
    fruitless = _fruitless([attempt for _, attempt in attempts])
    if fruitless >= FRUITLESS:
        return Over(f"{fruitless} attempts in a row made no progress: a crash loop")
    out = excluded(attempts, now)
    chosen = _chosen(last.hosts, [host for host in hosts if host not in out], policy.nodes)
    if len(chosen) < policy.min_nodes:
        return Over(f"{len(chosen)} of {len(hosts)} hosts are left, and the run needs {policy.min_nodes}")
    return Again(chosen, _changes(last.hosts, chosen))


def excluded(attempts: Iterable[tuple[float, Attempt]], now: float) -> frozenset[str]:
    """Hosts that are left out now."""
    strikes: dict[str, int] = {}
    until: dict[str, float] = {}
    before: tuple[str, ...] = ()
    for ended_at, attempt in attempts:
        for host in attempt.culprits:
            if host in before or host in attempt.outcome.unproven or host in attempt.refused:
                until[host] = ended_at + COOL_DOWN_S * 2 ** strikes.get(host, 0)
                strikes[host] = strikes.get(host, 0) + 1
        before = attempt.culprits
    return frozenset(host for host, end in until.items() if now < end)


def _fruitless(attempts: Sequence[Attempt]) -> int:
    """How many of the last attempts, in a row, got no further than what was before them."""
    count, best = 0, -1
    for attempt in attempts:
        if attempt.progress is None:
            got_on = attempt.ran_s >= PROGRESS_S
        else:
            got_on = attempt.progress > best
            best = max(best, attempt.progress)
        # A host that died says nothing about the job.
        if got_on or attempt.outcome.first_failure is None:
            count = 0
        else:
            count += 1
    return count


def _chosen(before: Sequence[str], available: Sequence[str], nodes: int) -> tuple[str, ...]:
    """Those of `before` that are available keep their places; others fill the gaps."""
    others = iter([host for host in available if host not in before])
    places = [host if host in available else next(others, None) for host in before]
    kept = [host for host in places if host is not None]
    return tuple([*kept, *others][:nodes])


def _changes(before: Sequence[str], after: Sequence[str]) -> str:
    gone = [host for host in before if host not in after]
    new = [host for host in after if host not in before]
    if gone and new:
        return f"{fold(new)} in place of {fold(gone)}"
    if gone:
        return f"without {fold(gone)}"
    return f"with {fold(new)}" if new else ""
