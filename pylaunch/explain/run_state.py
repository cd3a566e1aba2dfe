"""State of a released run: what each report of a node means for all nodes. Pure; `launch.follow` obeys it.

The first bad end, a lost node or a person's wish stops everybody. The run is over when every node has finished or is
lost; what it was is then read from the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pylaunch.explain.verdict import SAME_MOMENT_S, Evidence, judge
from pylaunch.model.outcome import Outcome, RankEnd, Status, UnfinishedRank


@dataclass(frozen=True)
class StopAll:
    """Tell every node that still runs to stop, with this much time between SIGTERM and SIGKILL."""

    reason: str
    grace: timedelta
    by_hand: bool = False
    """A person asked for it."""


@dataclass(frozen=True)
class RunState:
    """What is known of a released run."""

    ranks: Mapping[str, frozenset[int]]
    """What runs where: ranks by host."""

    ends: tuple[RankEnd, ...] = ()
    finished: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Leftovers by host, once it has finished."""

    lost: Mapping[str, str] = field(default_factory=dict)
    stopping: str = ""
    """Why the first node that stops says it does."""

    stop: StopAll | None = None
    """The last order to stop; orders only get more urgent."""

    by_hand_at: float | None = None
    """When a person first asked for the end, here or elsewhere; on our clock."""

    by_hand_reason: str = ""
    states: Mapping[str, tuple[UnfinishedRank, ...]] = field(default_factory=dict)
    """By host: how its ranks were when it began to stop."""

    def with_end(self, end: RankEnd, grace: timedelta) -> RunState:
        """A rank or a launcher ended. The same end told twice (after a re-attach) counts once.

        A launcher that stumbles when all of its ranks have ended well is no failure: torchrun does, on its way out,
        when the node that keeps its store was quicker (measured with 2.13).
        """
        if any((known.rank, known.host) == (end.rank, end.host) for known in self.ends):
            return self
        if end.rank is None and self._ended_well(self.ranks[end.host]):
            return self
        after = replace(self, ends=(*self.ends, end))
        if end.failed and end.symptom:
            # Its node stops a little later, when the others have shown how they end.
            return after
        return after.ordered(StopAll(f"{end.who} {end.how}", grace)) if end.failed else after

    def with_finished(self, host: str, leftovers: tuple[str, ...], grace: timedelta) -> RunState:
        """Everything of the run on `host` is over. Where ranks never began, the others wait for them in vain."""
        after = replace(self, finished={**self.finished, host: leftovers})
        if self.ranks[host] <= {end.rank for end in self.ends if end.host == host}:
            return after
        return after.ordered(StopAll(f"not all ranks of {host} were ever started", grace))

    def with_lost(self, host: str, reason: str, grace: timedelta) -> RunState:
        """`host` cannot be reached any more."""
        after = replace(self, lost={**self.lost, host: reason})
        return after.ordered(StopAll(f"{host} lost: {reason}", grace))

    def with_states(self, host: str, states: tuple[UnfinishedRank, ...]) -> RunState:
        """How the ranks of `host` were when it began to stop; what it says later is of no use."""
        return self if host in self.states else replace(self, states={**self.states, host: states})

    def with_stopping(self, reason: str, grace: timedelta) -> RunState:
        """A node stops, because it was told to or of itself: all do. Where that came from, its reason says."""
        return replace(self, stopping=self.stopping or reason).ordered(StopAll(reason, grace))

    def with_stop_by_hand(self, reason: str, grace: timedelta, at: float) -> RunState:
        """A person asked for the end at `at`, here or elsewhere."""
        first = at if self.by_hand_at is None else min(at, self.by_hand_at)
        after = replace(self, by_hand_at=first, by_hand_reason=self.by_hand_reason or reason)
        return after.ordered(StopAll(reason, grace, by_hand=True))

    def ordered(self, stop: StopAll) -> RunState:
        """An order to stop. The first reason stays; the shorter grace wins."""
        if self.stop is None:
            return replace(self, stop=stop)
        by_hand = self.stop.by_hand or stop.by_hand
        return replace(self, stop=StopAll(self.stop.reason, min(self.stop.grace, stop.grace), by_hand))

    def _ended_well(self, ranks: frozenset[int]) -> bool:
        return ranks <= {end.rank for end in self.ends if end.exit_code == 0}

    @property
    def live(self) -> tuple[str, ...]:
        """Hosts still to be heard from."""
        return tuple(sorted(self.ranks.keys() - self.finished.keys() - self.lost.keys()))

    def outcome(self, now: float) -> Outcome:
        """How the run ended, or how it stands for hosts that have not answered.

        What fails from the moment on that a person asked for the end is a consequence: ranks lose their neighbours.
        """
        verdict = judge(Evidence(self.ranks, self.ends, self.states, self.lost))
        by_hand = self.by_hand_at is not None
        seen = sum(end.rank is not None for end in self.ends)
        is_whole = seen == sum(map(len, self.ranks.values())) and not any(end.stopped for end in self.ends)
        failed_at = min((end.time for end in self.ends if end.failed), default=None)
        if failed_at is not None and self.by_hand_at is not None and failed_at > self.by_hand_at - SAME_MOMENT_S:
            verdict = None
        unproven = tuple(sorted({*self.lost, *self.live}))
        leftovers = {host: left for host, left in self.finished.items() if left}
        if verdict is not None:
            status, reason = Status.FAILED, verdict.reason
        elif by_hand and not is_whole:
            status, reason = Status.STOPPED, self.by_hand_reason
        elif self.lost:
            host, why = next(iter(self.lost.items()))
            status, reason = Status.FAILED, f"{host} lost: {why}"
        elif any(end.stopped for end in self.ends):
            status, reason = Status.FAILED, self.stopping or "its nodes stopped it and did not say why"
        elif is_whole:
            status, reason = Status.DONE, "every rank exited with code 0"
        elif seen == 0:
            status, reason = Status.REFUSED, "no rank was started"
        else:
            status, reason = Status.FAILED, f"only {seen} ranks were ever started"
        shown, named = (None, None) if verdict is None else (verdict.shown, verdict.named)
        return Outcome(status, reason, now, self.ends, leftovers, unproven, shown, named, by_hand=by_hand)
