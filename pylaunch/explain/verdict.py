"""Which rank or node a failed run is put down to. Pure.

A rank that lost its connection to another one, or waited for it in vain, is a victim. Victims are quoted, never named
as the cause. Where nothing else is known, nobody is named. In this order:

1. a rank that failed by itself before anybody was a victim, or was killed by a signal;
2. a node that is lost;
3. a rank whose process is stopped (SIGSTOP, a debugger);
4. ranks that exited with code 0 while others still waited for them;
5. a rank that failed by itself later: the text is shown, and what it says decides;
6. the one rank that had not ended when all others had;
7. a launcher, where no rank failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from signal import Signals

from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.outcome import Named, RankEnd, UnfinishedRank

SAME_MOMENT_S = 0.1
"""Times of two nodes that are this close say nothing about what came first: clocks are corrected, not equal."""

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a disk, a network file system or a driver (state D)",
    "Z": "a zombie",
}


@dataclass(frozen=True)
class Evidence:
    """What the nodes of a run that failed have reported."""

    ranks: Mapping[str, frozenset[int]]
    """What ran where: ranks by host."""

    ends: tuple[RankEnd, ...]
    states: Mapping[str, tuple[UnfinishedRank, ...]] = field(default_factory=dict)
    """By host: the ranks that had not ended of their own when the host began to stop. Hosts that never said are absent.
    """

    lost: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What the failure is put down to."""

    reason: str
    named: Named | None
    """None where the evidence names nobody."""

    shown: RankEnd | None
    """The end whose last lines tell most: that of the rank that is named, else that of the first victim."""


def judge(evidence: Evidence) -> Verdict | None:
    """The verdict on the ends that are known; None where nothing failed by itself."""
    failed = sorted((end for end in evidence.ends if end.failed), key=lambda end: end.time)
    ranks = [end for end in failed if end.rank is not None]
    victims = [end for end in ranks or failed if end.symptom]
    own = [end for end in ranks if not end.symptom]
    first = victims[0] if victims else None
    if own and (first is None or own[0].time <= first.time + SAME_MOMENT_S):
        return _of_end(own[0])
    if killed := [end for end in own if end.signal is not None and end.signal != Signals.SIGABRT]:
        return _of_end(killed[0])
    if evidence.lost and failed:
        host, why = next(iter(evidence.lost.items()))
        return Verdict(f"{host} lost: {why}", Named(host, None), None)
    if first is None:
        return _of_end(failed[0]) if failed else None
    return (
        _stopped(evidence, first)
        or _left(evidence, first)
        or (_of_end(own[0]) if own else None)
        or _alone(evidence, first)
        or Verdict(f"no rank is named: {_told(first)}", None, first)
    )


def _of_end(end: RankEnd) -> Verdict:
    return Verdict(f"{end.who} {end.how}", Named(end.host, end.rank), end)


def _told(victim: RankEnd) -> str:
    return f"{victim.who} {victim.symptom}"


def _stopped(evidence: Evidence, first: RankEnd) -> Verdict | None:
    found = [(host, state) for host, states in evidence.states.items() for state in states if state.is_stopped]
    if not found:
        return None
    host, state = found[0]
    if len(found) == 1:
        text = f"rank {state.rank} on {host} is stopped (state {state.state}: SIGSTOP or a debugger)"
        return Verdict(f"{text}{_after(state)}; {_told(first)}", Named(host, state.rank), first)
    who = fold_ranks([state.rank for _, state in found])
    hosts = fold({host for host, _ in found})
    return Verdict(f"ranks {who} on {hosts} are stopped (SIGSTOP or a debugger); {_told(first)}", None, first)


def _left(evidence: Evidence, first: RankEnd) -> Verdict | None:
    ends = [end for end in evidence.ends if end.rank is not None and end.exit_code == 0 and not end.stopped]
    gone = [end for end in ends if end.time <= first.time + SAME_MOMENT_S]
    if not gone:
        return None
    before_s = max(0.0, first.time - gone[-1].time)
    when = f"{_seconds(before_s)} before {_told(first)}"
    if len(gone) == 1:
        end = gone[0]
        after = "" if end.step is None else f" after step {end.step}"
        return Verdict(f"{end.who} exited with code 0{after}, {when}", Named(end.host, end.rank), first)
    who = fold_ranks([end.rank for end in gone if end.rank is not None])
    return Verdict(f"ranks {who} exited with code 0, the last {when}", None, first)


def _alone(evidence: Evidence, first: RankEnd) -> Verdict | None:
    """The one rank that had not ended; nobody where a node did not say how its ranks were, or several had not."""
    ended = {end.rank for end in evidence.ends if not end.stopped}
    waiting = [(host, state) for host, states in evidence.states.items() for state in states if state.rank not in ended]
    accounted = ended | {state.rank for _, state in waiting}
    if len(waiting) != 1 or any(not ranks <= accounted for ranks in evidence.ranks.values()):
        return None
    host, state = waiting[0]
    parts = [STATES.get(state.state, f"state {state.state}" if state.state else "in an unknown state")]
    parts += [f"last output {_seconds(state.silent_s)} before"] if state.silent_s is not None else ["no output"]
    parts += [f"at step {state.step}"] if state.step is not None else []
    text = f"rank {state.rank} on {host} alone had not ended ({', '.join(parts)}); {_told(first)}"
    return Verdict(text, Named(host, state.rank), first)


def _after(state: UnfinishedRank) -> str:
    return "" if state.step is None else f" after step {state.step}"


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
