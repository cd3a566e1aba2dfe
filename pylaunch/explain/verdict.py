"""Decide which rank or node caused the failure of a run. Pure.

A rank that lost its connection to another one, or waited for it in vain, is a victim. Victims are quoted, never named
as the cause. Where nothing else is known, nobody is named. In this order:

1. a rank that failed on its own before any rank was a victim, or was killed by a signal;
2. a node that is lost;
3. a rank whose process is stopped (SIGSTOP, a debugger);
4. ranks that exited with code 0 while others still waited for them;
5. a rank that failed on its own later: its text is shown, for a person to judge;
6. the one rank that had not ended when all others had;
7. a launcher, where no rank failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from signal import Signals

from pylaunch.explain.rank_end import described
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.outcome import Named, RankEnd, UnfinishedRank

SAME_MOMENT_S = 0.1
"""Times of two nodes that are closer have no order: clocks are corrected, not equal."""

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a disk, a network file system or a driver (state D)",
    "Z": "a zombie",
}


@dataclass(frozen=True)
class Evidence:
    """Reports of the nodes of a failed run."""

    ranks: Mapping[str, frozenset[int]]
    """Ranks by host."""

    ends: tuple[RankEnd, ...]
    states: Mapping[str, tuple[UnfinishedRank, ...]] = field(default_factory=dict)
    """Ranks that had not ended when their host began to stop, by host; absent for hosts that did not report them."""

    lost: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """Cause of a failure."""

    reason: str
    named: Named | None
    """None where the evidence names nobody."""

    shown: RankEnd | None
    """End whose last lines are shown: that of the named rank, else that of the first victim."""


def judge(evidence: Evidence) -> Verdict | None:
    """Return the verdict on the known ends; None if no rank failed on its own."""
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
        or Verdict(f"no rank is named: {_symptom_of(first)}", None, first)
    )


def _of_end(end: RankEnd) -> Verdict:
    return Verdict(f"{end.who} {described(end)}", Named(end.host, end.rank), end)


def _symptom_of(victim: RankEnd) -> str:
    return f"{victim.who} {victim.symptom}"


def _stopped(evidence: Evidence, first: RankEnd) -> Verdict | None:
    found = [(host, state) for host, states in evidence.states.items() for state in states if state.is_stopped]
    if not found:
        return None
    host, state = found[0]
    if len(found) == 1:
        text = f"rank {state.rank} on {host} is stopped (state {state.state}: SIGSTOP or a debugger)"
        return Verdict(f"{text}{_after(state)}; {_symptom_of(first)}", Named(host, state.rank), first)
    who = fold_ranks([state.rank for _, state in found])
    hosts = fold({host for host, _ in found})
    return Verdict(f"ranks {who} on {hosts} are stopped (SIGSTOP or a debugger); {_symptom_of(first)}", None, first)


def _left(evidence: Evidence, first: RankEnd) -> Verdict | None:
    ends = [end for end in evidence.ends if end.rank is not None and end.exit_code == 0 and not end.stopped]
    gone = [end for end in ends if end.time <= first.time + SAME_MOMENT_S]
    if not gone:
        return None
    before_s = max(0.0, first.time - gone[-1].time)
    when = f"{_seconds(before_s)} before {_symptom_of(first)}"
    if len(gone) == 1:
        end = gone[0]
        after = "" if end.step is None else f" after step {end.step}"
        return Verdict(f"{end.who} exited with code 0{after}, {when}", Named(end.host, end.rank), first)
    who = fold_ranks([end.rank for end in gone if end.rank is not None])
    return Verdict(f"ranks {who} exited with code 0, the last {when}", None, first)


def _alone(evidence: Evidence, first: RankEnd) -> Verdict | None:
    """Name the one rank that had not ended; none if several had not, or a node did not report its ranks."""
    ended = {end.rank for end in evidence.ends if not end.stopped}
    waiting = [(host, state) for host, states in evidence.states.items() for state in states if state.rank not in ended]
    accounted = ended | {state.rank for _, state in waiting}
    if len(waiting) != 1 or any(not ranks <= accounted for ranks in evidence.ranks.values()):
        return None
    host, state = waiting[0]
    parts = [STATES.get(state.state, f"state {state.state}" if state.state else "in an unknown state")]
    parts += [f"last output {_seconds(state.silent_s)} before"] if state.silent_s is not None else ["no output"]
    parts += [f"at step {state.step}"] if state.step is not None else []
    text = f"rank {state.rank} on {host} alone had not ended ({', '.join(parts)}); {_symptom_of(first)}"
    return Verdict(text, Named(host, state.rank), first)


def _after(state: UnfinishedRank) -> str:
    return "" if state.step is None else f" after step {state.step}"


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
