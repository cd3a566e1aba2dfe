"""State of a released run: what each report of a node means for all nodes. Pure; `runs.follow` obeys it.

The first failure, a lost node or a request by a person stops all nodes. The run is over when every node has finished or
is lost; its outcome is derived from the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.model.diagnosis.hang import HangFinding
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Named, Outcome, Status
from pylaunch.protocol.examination import RankView
from pylaunch.protocol.node_evidence import HostEvidence, RankEnd, RankState
from pylaunch.verdict.failure_evidence import SAME_MOMENT_S, Evidence, lost_contact
from pylaunch.verdict.rank_end import described

if TYPE_CHECKING:
    from pylaunch.verdict.verdict import Verdict


@dataclass(frozen=True)
class StopAll:
    """Order every live node to stop, with this much time between SIGTERM and SIGKILL."""

    reason: str
    grace: timedelta
    by_hand: bool = False
    """Requested by a person."""

    shown: str = ""
    """Text for a person in place of `reason`, while the cause is not known."""


@dataclass(frozen=True)
class RunState(Evidence):
    """State of a released run, from the reports of its nodes: the evidence so far, and what was ordered."""

    started: frozenset[int] = frozenset()
    """Ranks whose nodes reported their start."""

    finished: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Leftovers by host; a key for each host that has finished."""

    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Reasons why the files of the run cannot be read on finished hosts, by host."""

    unknown: frozenset[str] = frozenset()
    """Finished hosts that know nothing of the run: it never was there, or its files are gone."""

    stop: StopAll | None = None
    """Last order to stop; later orders are only more urgent."""

    by_hand_at: float | None = None
    """Time on our clock when a person first requested the end, here or elsewhere."""

    by_hand_reason: str = ""
    hang: HangFinding | None = None
    """Finding that ended the run."""

    hang_at: float = 0.0

    def with_end(self, end: RankEnd, grace: timedelta) -> RunState:
        """Add the end of a rank or a launcher. An end that is reported twice (after a re-attach) counts once.

        A launcher that fails after all of its ranks have ended well is no failure: torchrun does so at its exit if the
        node that hosts its store exited first (measured with 2.13).
        """
        if any((known.rank, known.host) == (end.rank, end.host) for known in self.ends):
            return self
        if end.rank is None and self._ended_well(self.ranks[end.host]):
            return self
        after = replace(self, ends=(*self.ends, end))
        if not end.failed or end.symptom:
            # After a victim, its node delays its own stop until the other ranks have ended or been examined.
            return after
        who = "a launcher" if end.rank is None else "a rank"
        # The first end that is reported need not be the cause: the verdict names that.
        return after.ordered(
            StopAll(f"{end.who} {described(end)}", grace, shown=f"{who} has failed; the cause follows")
        )

    def with_started(self, rank: int) -> RunState:
        """Add a rank that was started."""
        return self if rank in self.started else replace(self, started=self.started | {rank})

    def with_finished(self, host: str, leftovers: tuple[str, ...], grace: timedelta) -> RunState:
        """Mark `host` as finished. If some of its ranks never started, stop the others, which wait for them."""
        after = replace(self, finished={**self.finished, host: leftovers})
        if self.ranks[host] <= {end.rank for end in self.ends if end.host == host}:
            return after
        is_stranger = host in self.unknown
        lack = f"{host} knows nothing of the run" if is_stranger else f"not all ranks of {host} were ever started"
        return after.ordered(StopAll(lack, grace))

    def with_unreadable(self, host: str, reason: str) -> RunState:
        """Note why the files of the run on `host` cannot be read at its end; "" for files that can."""
        return replace(self, unreadable={**self.unreadable, host: reason}) if reason else self

    def with_unknown(self, host: str, grace: timedelta) -> RunState:
        """Mark `host`, which knows nothing of the run, as finished."""
        return replace(self, unknown=self.unknown | {host}).with_finished(host, (), grace)

    def with_lost(self, host: str, reason: str, grace: timedelta, *, host_answers: bool = False) -> RunState:
        """Mark the agent on `host` as lost. Stop the others, unless all ranks of `host` had ended well."""
        answering = self.answering | {host} if host_answers else self.answering
        after = replace(self, lost={**self.lost, host: reason}, answering=answering)
        if self._ended_well(self.ranks[host]):
            return after
        return after.ordered(StopAll(lost_contact([host], reason, answer=host_answers), grace))

    def with_restarted(self, hosts: Iterable[str]) -> RunState:
        """Note that `hosts` were booted again during the run."""
        return replace(self, restarted=self.restarted.union(hosts))

    def with_states(self, host: str, states: tuple[RankState, ...]) -> RunState:
        """Add the unfinished ranks of `host` at the time it began to stop; only the first report counts."""
        return self if host in self.states else replace(self, states={**self.states, host: states})

    def with_facts(self, facts: HostEvidence) -> RunState:
        """Add the facts of a host at the time it began to stop; only the first report counts."""
        if self.of(facts.host) is not None:
            return self
        return replace(self, hosts=tuple(sorted((*self.hosts, facts), key=lambda each: each.host)))

    def with_view(self, view: RankView) -> RunState:
        """Add a rank as it was when the first one failed; only the first view of each counts."""
        is_known = any(each.rank == view.rank for each in self.views)
        return self if is_known else replace(self, views=(*self.views, view))

    def with_stopping(self, reason: str, grace: timedelta) -> RunState:
        """Stop all nodes because one node stops, ordered or on its own; `reason` names the origin."""
        return replace(self, stopping=self.stopping or reason).ordered(StopAll(reason, grace))

    def with_hang(self, finding: HangFinding, grace: timedelta, at: float) -> RunState:
        """Stop all nodes because the ranks do not advance, as `finding` explains."""
        return replace(self, hang=finding, hang_at=at).ordered(StopAll(f"hang: {finding.text}", grace))

    def with_stop_by_hand(self, reason: str, grace: timedelta, at: float) -> RunState:
        """Add the request of a person at `at`, here or elsewhere, to end the run."""
        first = at if self.by_hand_at is None else min(at, self.by_hand_at)
        after = replace(self, by_hand_at=first, by_hand_reason=self.by_hand_reason or reason)
        return after.ordered(StopAll(reason, grace, by_hand=True))

    def with_cancelled(self, hosts: Iterable[str], reason: str, grace: timedelta, at: float) -> RunState:
        """End `hosts`, whose Slurm job a person cancelled at `at`: a stop by hand to which they do not answer."""
        gone = {host: reason for host in hosts if host in self.live}
        return replace(self, lost={**self.lost, **gone}).with_stop_by_hand(reason, grace, at)

    def ordered(self, stop: StopAll) -> RunState:
        """Add an order to stop. The first reason stays; the shorter grace wins."""
        if self.stop is None:
            return replace(self, stop=stop)
        by_hand = self.stop.by_hand or stop.by_hand
        return replace(self, stop=replace(self.stop, grace=min(self.stop.grace, stop.grace), by_hand=by_hand))

    def _ended_well(self, ranks: frozenset[int]) -> bool:
        return ranks <= {end.rank for end in self.ends if end.exit_code == 0}

    @property
    def live(self) -> tuple[str, ...]:
        """Hosts that have neither finished nor been lost."""
        return tuple(sorted(self.ranks.keys() - self.finished.keys() - self.lost.keys()))

    def outcome(self, now: float) -> Outcome:
        """Return the outcome of the run; hosts that have not answered are unproven.

        A failure after a person requested the end is a consequence: ranks lose their neighbours.
        """
        verdict = self._verdict()
        by_hand = self.by_hand_at is not None
        seen = sum(end.rank is not None for end in self.ends)
        is_whole = seen == sum(map(len, self.ranks.values())) and not any(end.stopped for end in self.ends)
        failed_at = min((end.time for end in self.ends if end.failed), default=None)
        if failed_at is not None and self.by_hand_at is not None and failed_at > self.by_hand_at - SAME_MOMENT_S:
            verdict = None
        ended_well = is_whole and failed_at is None
        hang = None if ended_well or (failed_at is not None and failed_at <= self.hang_at) else self.hang
        unproven, answering = tuple(sorted({*self.lost, *self.live, *self.unknown})), tuple(sorted(self.answering))
        leftovers = {host: left for host, left in self.finished.items() if left}
        if hang is not None and not by_hand:
            host = hang.hosts[0] if len(hang.hosts) == 1 else None
            rank = hang.ranks[0] if len(hang.ranks) == 1 else None
            return Outcome(
                Status.FAILED, f"hang: {hang.text}", now, self.ends, leftovers, unproven,
                named=None if host is None or len(hang.ranks) > 1 else Named(host, rank),
                evidence=hang.evidence, hint=hang.hint, hang=hang, hosts=self.hosts,
                answering=answering, unreadable=self.unreadable,
            )  # fmt: skip
        if verdict is not None:
            status, reason = Status.FAILED, verdict.reason
        elif by_hand and not ended_well:
            status, reason = Status.STOPPED, self.by_hand_reason
        elif is_whole:
            # A node that is lost after its ranks ended may not be clean, and is not the end of the work.
            status, reason = (
                Status.DONE,
                "; ".join(["every rank exited with code 0", *self._hidden_failures(), *self._lost_contacts()]),
            )
        elif self.lost:
            from pylaunch.verdict.verdict import judge_lost  # noqa: PLC0415 -- 40 ms that only a failure costs

            verdict = judge_lost(self)
            status, reason = Status.FAILED, verdict.reason
        elif any(end.stopped for end in self.ends):
            status, reason = Status.FAILED, self.stopping or "its nodes stopped it and did not say why"
        else:
            status, reason = self._without_all_ends(seen, leftovers)
        shown, named = (None, None) if verdict is None else (verdict.shown, verdict.named)
        return Outcome(
            status, reason, now, self.ends, leftovers, unproven, shown, named, by_hand=by_hand, hosts=self.hosts,
            causes=() if verdict is None else verdict.causes, rejected=() if verdict is None else verdict.rejected,
            answering=answering, unreadable=self.unreadable,
        )  # fmt: skip

    def _hidden_failures(self) -> list[str]:
        hiding = [end for end in self.ends if end.hides_failure]
        more = [f"{len(hiding) - 1} more ranks hide a failure"] if len(hiding) > 1 else []
        return [*(f"{end.who} {described(end)}" for end in hiding[:1]), *more]

    def _lost_contacts(self) -> list[str]:
        return [lost_contact([host], self.lost[host], answer=host in self.answering) for host in sorted(self.lost)]

    def _without_all_ends(self, seen: int, leftovers: Mapping[str, tuple[str, ...]]) -> tuple[Status, str]:
        """Return the status and the reason of a run with only `seen` ends of ranks, none of them a failure."""
        if seen == 0 and self.unknown == self.ranks.keys():
            return Status.FAILED, "none of its nodes knows it any more"
        if self.live or leftovers or not self.started <= {end.rank for end in self.ends}:
            # A rank whose node does not report its end may have run all the time.
            missing = sum(map(len, self.ranks.values())) - seen
            ranks = "rank" if missing == 1 else "ranks"
            return Status.FAILED, self.stopping or f"no node reported the end of {missing} {ranks}"
        if seen == 0:
            return Status.REFUSED, "no rank was started"
        ended = {end.rank for end in self.ends}
        without = fold(host for host, ranks in self.ranks.items() if ranks - ended)
        return Status.FAILED, f"ranks of {without} were never started{f' ({self.stopping})' if self.stopping else ''}"

    def _verdict(self) -> Verdict | None:
        if not self.failures:
            return None
        from pylaunch.verdict.verdict import judge  # noqa: PLC0415 -- 40 ms that only a failure costs

        return judge(self)
