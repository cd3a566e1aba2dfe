"""One run on this node, from the gate to its end: apply events to its lifecycle and carry out the actions."""

from __future__ import annotations

import threading
import time
from functools import partial

from pylaunch import protocol
from pylaunch.agent.evidence import rank_states
from pylaunch.agent.evidence.examination import NO_HELPER, NO_THREAD, Deliver, Examinations, ExaminedRun
from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.evidence.node_facts import NodeFacts
from pylaunch.agent.evidence.rank_ends import Ended, RankEnds, name_of
from pylaunch.agent.logs.log_files import LogIndex, LogLimit
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.run import lifecycle
from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.run.spawn import start_time
from pylaunch.agent.run.worker_group import RankConnection, RankEntries, Started, WorkerGroup
from pylaunch.agent.shared import processes, rank_files
from pylaunch.agent.shared.event_loop import EventLoop, Part
from pylaunch.agent.shared.record import NodeOutcome, Record, note

RELEASE_AHEAD_S = 5.0
"""Longest time from Release to the start. A controller sends less, so more means that a clock was changed."""

LEFTOVER_GRACE_S = 2.0


class Run:
    """Run whose processes are forked and wait at the gate, or have passed it. Times passed in are monotonic."""

    def __init__(self, workers: WorkerGroup, holdings: Holdings, record: Record, loop: EventLoop) -> None:
        self.task = task = workers.task
        self.directory = record.directory
        self.life = lifecycle.Life(frozenset(rank.rank for rank in task.ranks), bool(task.launcher), task.grace_s)
        self.outcome: NodeOutcome | None = None
        self.streams = workers.streams()
        """Log file of each stream, by name."""

        self.mask: Mask = workers.mask
        self._workers = workers
        self._holdings = holdings
        self._record = record
        self._loop = loop
        self._release: tuple[float, int | None] | None = None
        """Time of the release that was ordered, and the rendezvous port that a node chose."""

        self._terminated_at = 0.0
        """Time of the first SIGTERM to ranks."""

        self._held_states: list[protocol.RankState] = []
        """States of the other ranks when the first rank failed because of another one."""

        self._container_end: threading.Thread | None = None
        """Ends the container of a run that is over. No child is reaped here meanwhile."""

        self._end = "finished", ""
        """Outcome and message of the run, once its container ends."""

        self._container_left: list[str] = []
        """Why the container is left."""

        record.keep_task(task)
        kernel = KernelLog()
        self._facts = NodeFacts(kernel)
        self._ends = RankEnds(task, record.directory, self.streams, workers.mask, kernel)
        self._examinations = Examinations(_examined(workers, record, self.streams, loop), self._facts)
        self._entries = RankEntries(record.directory, task, self._on_entry)
        logs = LogLimit(self.streams.values(), task.log_limit), LogIndex(record.directory, self.streams)
        self._parts: list[Part] = [
            *logs, kernel, self._ends, self._examinations, self._entries, holdings,
        ]  # fmt: skip
        for part in self._parts:
            part.begin(loop)
        for started in workers.at_gate:
            loop.watch(started, partial(self._on_start, started))

    @property
    def stopping(self) -> protocol.Stopping | None:
        """First announced stop; None while the run is not being stopped."""
        return next((event for event in self._record.events if isinstance(event, protocol.Stopping)), None)

    @property
    def is_stopped_by_hand(self) -> bool:
        """True when a person requested the stop."""
        return any(isinstance(event, protocol.Stopping) and event.by_hand for event in self._record.events)

    @property
    def _is_ending(self) -> bool:
        """True from the moment at which the end of the run is certain: nothing starts, and no stop adds anything."""
        return self._container_end is not None or self.outcome is not None

    @property
    def live_ranks(self) -> dict[int, int]:
        """Process id of each rank that runs."""
        return {rank: pid for pid, rank in self._workers.pids.items() if rank in self.life.running and rank is not None}

    def release(self, after_s: float, now: float, port: int | None = None) -> None:
        """Start in `after_s` seconds, at once if that is past. More than RELEASE_AHEAD_S ends the run."""
        if self.life.phase != "prepared" or self._release is not None or self._is_ending:
            return
        if after_s > RELEASE_AHEAD_S:
            self.abort(
                f"the start is {after_s:.1f} s ahead on this node's clock, more than {RELEASE_AHEAD_S:g} s: "
                "the clock was changed after the controller measured it"
            )
            return
        self._release = now + max(0.0, after_s), port

    def stop(self, reason: str, grace_s: float, now: float, *, by_hand: bool = False) -> None:
        """Stop the run: SIGTERM, and SIGKILL after `grace_s`. Before the release, nothing is exec'd."""
        if reason == protocol.SIGNALLED and not self._is_ending:  # And not that of another node.
            self._workers.ended_from_outside = reason
        self.advance(now)  # A rank that has ended by now was not ended by this stop, unless it obeyed the same signal.
        if self._is_ending:
            return
        if self.life.phase == "prepared":
            self.abort(reason, by_hand=by_hand)
        else:
            self._follow(lifecycle.stop(self.life, reason, now, grace_s, by_hand=by_hand))

    def abort(self, reason: str, *, by_hand: bool = False) -> None:
        """End the run before its release."""
        for started in self._workers.at_gate:
            self._loop.forget(started)
        self._workers.kill_at_gate()
        self.life = lifecycle.aborted(self.life)
        self._record.append(protocol.Stopping(reason, time.time(), by_hand))
        self._begin_end("aborted", reason)

    def examine(self, request: protocol.Examine, deliver: Deliver) -> None:
        """Take a view of each rank that runs, and the facts of the node if requested, for `deliver`."""
        if self.life.phase == "prepared" or self._is_ending:
            deliver([], None)
        else:
            self._examinations.request(request, deliver, time.monotonic())

    def deadline(self) -> float | None:
        """Return the time at which `advance` must be called even if nothing happens."""
        if self._container_end is not None:
            return time.monotonic() + processes.POLL_S
        if self._release is not None:
            return self._release[0]
        deadlines = [lifecycle.next_deadline(self.life), *(part.deadline() for part in self._parts)]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def advance(self, now: float) -> None:
        """Collect ended processes and run the actions that are due."""
        if self.outcome is not None:
            return
        if self._container_end is not None:
            if not self._container_end.is_alive():
                self._finish(*self._end)
            return
        for part in self._parts:
            part.tick(now)
        reaped = list(self._workers.reap(time.time()))
        if self.life.phase != "prepared" and any(each.signal in protocol.SIGNALS_TO_ALL for each in reaped):
            self._loop.look_at_signals()  # One to all processes of the user came to this agent before.
        self._entries.receive_all()
        for ended in reaped:
            if self.life.phase == "prepared":
                self.abort(f"{ended.failure or 'a process ended'} before the start")
                return
            self._on_end(ended, now)
        if self._release is not None and now >= self._release[0]:
            self._workers.release(self._release[1])
            self._release = None
            self.life = lifecycle.released(self.life, now)
        self._follow(lifecycle.tick(self.life, now, is_failing=self._is_failing()))
        if self.life.is_over or self.life.has_given_up(now):
            self._begin_end("finished", "")

    def _on_entry(self, entry: RankConnection, line: bytes) -> None:
        refusal = None if self.life.phase == "running" and not self._is_ending else "the run is being stopped"
        event = self._workers.on_message(entry, line, refusal=refusal)
        if isinstance(event, Started):
            self._record.append(protocol.RankStarted(event.rank, event.pid, event.time))
            self._facts.know(event.rank, event.pid)
            self._follow(lifecycle.rank_started(self.life, event.rank))
        elif isinstance(event, Ended):
            self._on_end(event, time.monotonic())

    def _on_start(self, descriptor: int) -> None:
        self._loop.forget(descriptor)
        rank, pid = self._workers.at_gate.pop(descriptor)
        began = start_time(descriptor)
        if self.life.phase == "prepared":
            return
        if not any(isinstance(event, protocol.Released) for event in self._record.events):
            self._record.append(protocol.Released(began or time.time()))
        if began is not None and rank is not None:
            self._record.append(protocol.RankStarted(rank, pid, began))
            self._facts.know(rank, pid)

    def _on_end(self, ended: Ended, now: float) -> None:
        for descriptor in [each for each, (_, pid) in self._workers.at_gate.items() if pid == ended.pid]:
            self._on_start(descriptor)
        if ended.rank is None:
            end = self._ends.of_launcher(ended, is_stopping=self.life.is_stopping)
        else:
            terminated_at = self._terminated_at
            end = self._ends.of_rank(ended, ended.rank, is_held=self.life.is_held, terminated_at=terminated_at)
        failure = self._failure(ended, end)
        self._record.append(end)
        is_victim = bool(end.symptom)
        self._follow(lifecycle.ended(self.life, ended.rank, failure, now, is_victim=is_victim))
        if self.life.is_held and not self._held_states and ended.rank is not None:
            # Now, because a launcher ends the other ranks when it sees the first failure.
            self._held_states = self._rank_states()
            self._facts.collect(self._workers.pids)

    def _failure(self, ended: Ended, end: protocol.RankEnd) -> str | None:
        """Describe the failure; None for a good end, and for a rank that a launcher ends after another failed."""
        if end.obeyed and self.life.is_held:
            return None
        if end.symptom and ended.failure is not None:
            return f"{name_of(ended.rank)} {end.symptom}"
        if ended.signal in protocol.SIGNALS_TO_ALL and self._workers.ended_from_outside:
            return self._workers.ended_from_outside
        return ended.failure

    @property
    def _signalled(self) -> set[int]:
        """Ranks that ended because of a signal from pylaunch or the launcher."""
        ends = [each for each in self._record.events if isinstance(each, protocol.RankEnd) and each.obeyed]
        return {each.rank for each in ends if each.rank is not None}

    def _is_failing(self) -> bool:
        return self.life.awaits_settling and rank_states.are_failing(self.life.running, self.streams)

    def _rank_states(self) -> list[protocol.RankState]:
        """Return the states of ranks that have not ended on their own, now or before a launcher ended them."""
        pids = {rank: pid for pid, rank in self._workers.pids.items() if rank in self.life.running}
        now = rank_states.states(pids, self.streams, self._record.directory, self.mask)
        signalled = self._signalled
        return [*(each for each in self._held_states if each.rank in signalled and each.rank not in pids), *now]

    def _follow(self, decided: tuple[lifecycle.Life, list[lifecycle.Action]]) -> None:
        self.life, actions = decided
        for action in actions:
            if isinstance(action, lifecycle.Announce):
                states = self._rank_states()
                if not action.by_hand:
                    self._facts.collect(self._workers.pids)
                self._record.append(protocol.Stopping(action.reason, time.time(), action.by_hand, states))
                self._report_facts()
            elif isinstance(action, lifecycle.ExamineRanks):
                now = time.monotonic()
                self.life = lifecycle.examination_begun(self.life, now)
                request = protocol.Examine(protocol.UNASKED, within_s=lifecycle.EXAMINE_S)
                self._examinations.request(request, self._keep_views, now)
            elif isinstance(action, lifecycle.Terminate):
                self._terminated_at = self._terminated_at or time.time()
                for rank in action.ranks:
                    self._workers.terminate(rank)
            else:
                self._workers.kill_everything()

    def _keep_views(self, views: list[protocol.RankView], _: protocol.HostEvidence | None) -> None:
        """Record the views that were taken before the stop, which continues."""
        for view in views:
            self._record.append(view)
        self._follow(lifecycle.examined(self.life, time.monotonic(), is_failing=self._is_failing()))

    def _report_facts(self) -> None:
        evidence = self._facts.at_stop()
        if evidence is not None:
            self._record.append(evidence)

    def _begin_end(self, outcome: str, message: str) -> None:
        """End the run, once, and before that its container, beside the loop: its engine may take long, and a node must
        not be silent for long."""
        if self._is_ending:
            return
        if self._workers.container is None:
            self._finish(outcome, message)
            return
        self._end = outcome, message
        self._container_left = [f"the container of run {self.task.run}: its end is unknown"]

        def end() -> None:
            self._container_left = self._workers.end_container()

        self._container_end = threading.Thread(target=end, daemon=True)
        try:
            self._container_end.start()
        except RuntimeError:  # The ranks that survive leave no process for it.
            end()

    def _finish(self, outcome: str, message: str) -> None:
        left = self._container_left
        grace_s = 0.0 if self.life.kill_at is not None and time.monotonic() > self.life.kill_at else LEFTOVER_GRACE_S
        left += [f"{process} survives SIGKILL" for process in processes.end_all(self._workers.all_processes, grace_s)]
        list(self._workers.reap(time.time()))
        self._workers.remove_what_they_used()
        for part in self._parts:
            left += part.end()
        self._scrub()
        unreadable = rank_files.obstacle(f"{self._record.directory.logs}/.")
        if self._signalled and self._workers.ended_from_outside and self.stopping is None:
            self._record.append(protocol.Stopping(self._workers.ended_from_outside, time.time(), by_hand=False))
        self._record.append(protocol.Finished(left, unreadable))
        self.outcome = NodeOutcome(outcome, message)

    def _scrub(self) -> None:
        """Remove secrets from the log files of a run that is over."""
        for path in self.streams.values():
            try:
                self.mask.scrub(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                note(f"{path} may still contain a secret of the run: {error.strerror}")


def _examined(workers: WorkerGroup, record: Record, streams: dict[str, str], loop: EventLoop) -> ExaminedRun:
    no_helper = NO_HELPER if workers.task.rank_thread else NO_THREAD
    return ExaminedRun(loop, record.directory, streams, workers.mask, no_helper, workers.given, workers.pids)
