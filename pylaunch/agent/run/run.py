"""One run on this node, from the gate to its end: apply events to its lifecycle and carry out the actions."""

from __future__ import annotations

import signal
import socket
import time
from functools import partial

from pylaunch import protocol
from pylaunch.agent.evidence import node_changes, rank_report, rank_states, symptoms
from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.evidence.node_facts import NodeFacts
from pylaunch.agent.evidence.out_of_memory import Memory
from pylaunch.agent.evidence.rank_report import FirstLines
from pylaunch.agent.logs.log_files import LogIndex, LogLimit
from pylaunch.agent.logs.tail import LAST_LINES, last_lines
from pylaunch.agent.run import lifecycle
from pylaunch.agent.run.examinations import Deliver, Examinations
from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.run.spawn import start_time
from pylaunch.agent.run.worker_group import Ended, RankConnection, Started, WorkerGroup, name_of
from pylaunch.agent.shared import leases, processes, rank_files
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.record import NodeOutcome, Record, note
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.base.dataclass import replace

CAUSE_LINES = 200
WRITTEN_LINES, WRITTEN_BYTES = 20_000, 1 << 20
"""End of stderr of a rank that exited with code 0, in which an exception of a thread is looked for."""

"""Number of last lines searched for the cause of an end: an abort may write a long stack trace after the cause."""

RELEASE_AHEAD_S = 5.0
"""Longest time from Release to the start. A controller sends less, so more means that a clock was changed."""

ENTRIES_PER_RANK = 8
"""Connections at a time: a launcher may restart a rank before the previous one is gone."""

LEFTOVER_GRACE_S = 2.0


class Run:
    """Run whose processes are forked and wait at the gate, or have passed it. Times passed in are monotonic."""

    def __init__(self, workers: WorkerGroup, holdings: Holdings, record: Record, loop: EventLoop) -> None:
        self.task = workers.task
        self.life = lifecycle.Life(frozenset(rank.rank for rank in self.task.ranks), bool(self.task.launcher))
        self.outcome: NodeOutcome | None = None
        self.mask = workers.mask
        self._workers = workers
        self._holdings = holdings
        self._record = record
        self._loop = loop
        self._release_at: float | None = None
        self._rendezvous_port: int | None = None
        self._has_begun = False
        self._terminated_at = 0.0  # Time of the first SIGTERM to ranks.
        self._first_lines = FirstLines(record.directory)
        self._memory = Memory()
        self._at_start = node_changes.NodeAtStart(self.task.python)
        self._kernel = KernelLog()
        self._facts = NodeFacts(self._kernel)
        self._examinations = Examinations(workers, self._facts, record.directory, loop)
        self._signalled: set[int] = set()
        """Ranks that ended after a signal from pylaunch or the launcher."""

        self._held_states: list[protocol.RankState] = []
        """States of the other ranks when the first rank failed because of another one."""

        record.keep_task(self.task)
        self._log_limit = LogLimit(self.streams.values(), self.task.log_limit)
        self._log_index = LogIndex(record.directory, self.streams)
        self._entries: list[RankConnection] = []
        listener = local_socket.listen(record.directory.file("ranks.sock"))
        loop.watch(listener, partial(self._accept, listener))
        for started in workers.at_gate:
            loop.watch(started, partial(self._on_start, started))
        for lease in holdings.leases:
            loop.watch(lease, partial(leases.turn_away, lease))

    @property
    def stopping(self) -> protocol.Stopping | None:
        """First announced stop; None while the run is not being stopped."""
        return next((event for event in self._record.events if isinstance(event, protocol.Stopping)), None)

    @property
    def is_stopped_by_hand(self) -> bool:
        """True when a person requested the stop."""
        return any(isinstance(event, protocol.Stopping) and event.by_hand for event in self._record.events)

    @property
    def streams(self) -> dict[str, str]:
        """Log file of each stream, by name."""
        return self._workers.streams()

    @property
    def live_ranks(self) -> dict[int, int]:
        """Process id of each rank that runs."""
        return {rank: pid for pid, rank in self._workers.pids.items() if rank in self.life.running and rank is not None}

    @property
    def chosen_port(self) -> int | None:
        """Rendezvous port, where the task let this node choose it."""
        return self._holdings.port if self.task.choose_port else None

    def release(self, after_s: float, now: float, port: int | None = None) -> None:
        """Start in `after_s` seconds, at once if that is past. More than RELEASE_AHEAD_S ends the run."""
        if self.life.phase != "prepared" or self._release_at is not None:
            return
        if after_s > RELEASE_AHEAD_S:
            self.abort(
                f"the start is {after_s:.1f} s ahead on this node's clock, more than {RELEASE_AHEAD_S:g} s: "
                "the clock was changed after the controller measured it"
            )
            return
        self._rendezvous_port = port
        self._release_at = now + max(0.0, after_s)

    def stop(self, reason: str, grace_s: float, now: float, *, by_hand: bool = False) -> None:
        """Stop the run: SIGTERM, and SIGKILL after `grace_s`. Before the release, nothing is exec'd."""
        if reason == protocol.SIGNALLED:  # And not that of another node.
            self._workers.ended_from_outside = reason
        self.advance(now)  # A rank that has ended by now was not ended by this stop, unless it obeyed the same signal.
        if self.outcome is not None:
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
        self._record.append(protocol.Stopping(reason, time.time(), by_hand))
        self._finish("aborted", reason)

    def examine(self, request: protocol.Examine, deliver: Deliver) -> None:
        """Take a view of each rank that runs, and the facts of the node if requested, for `deliver`."""
        if self.life.phase == "prepared" or self.outcome is not None:
            deliver([], None)
        else:
            self._examinations.begin(request, deliver, time.monotonic())

    def next_deadline(self) -> float | None:
        """Return the time at which `advance` must be called even if nothing happens."""
        if self._release_at is not None:
            return self._release_at
        deadlines = [
            lifecycle.next_deadline(self.life), self._log_limit.next_look(), self._examinations.next_deadline(),
        ]  # fmt: skip
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def advance(self, now: float) -> None:
        """Collect ended processes and run the actions that are due."""
        if self.outcome is not None:
            return
        self._log_limit.keep(now)
        self._memory.look(now)
        self._kernel.look(now)
        self._log_index.look(now)
        self._look_for_first_lines()
        self._examinations.advance(now)
        reaped = list(self._workers.reap(time.time()))
        if self.life.phase != "prepared" and any(each.signal in protocol.SIGNALS_TO_ALL for each in reaped):
            self._loop.look_at_signals()  # One to all processes of the user came to this agent before.
        for entry in list(self._entries):
            self._receive(entry)  # A rank may have reported its end before its launcher ended.
        for ended in reaped:
            if self.life.phase == "prepared":
                self.abort(f"{ended.failure or 'a process ended'} before the start")
                return
            self._on_end(ended, now)
        if self._release_at is not None and now >= self._release_at:
            self._release_at = None
            self._workers.release(self._rendezvous_port)
            self.life = lifecycle.released(self.life, now)
        self._follow(lifecycle.end_hold(self.life, now, self.task.grace_s))
        self._follow(lifecycle.end_examination(self.life, now, is_failing=self._is_failing()))
        self._obey(lifecycle.tick(self.life, now))
        if self.life.is_over or self.life.has_given_up(now):
            self._finish("finished", "")

    def _accept(self, listener: socket.socket) -> None:
        connected = local_socket.accept(listener)
        if connected is None:
            return
        entry = RankConnection(connected)
        if len(self._entries) >= ENTRIES_PER_RANK * (1 + len(self.task.ranks)):
            entry.close()
            return
        self._entries.append(entry)
        self._loop.watch(entry.socket, partial(self._receive, entry))

    def _receive(self, entry: RankConnection) -> None:
        try:
            for line in entry.receive():
                self._on_entry(entry, line)
        except protocol.WireError as error:
            note(str(error))
            entry.is_open = False
        entry.flush()
        if not entry.is_open:
            self._loop.forget(entry.socket)
            self._entries.remove(entry)
            entry.close()

    def _on_entry(self, entry: RankConnection, line: bytes) -> None:
        refusal = None if self.life.phase == "running" and self.outcome is None else "the run is being stopped"
        event = self._workers.on_message(entry, line, refusal=refusal)
        if isinstance(event, Started):
            self._record.append(protocol.RankStarted(event.rank, event.pid, event.time))
            self._first_lines.expect(event.rank, event.time)
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
        if not self._has_begun:
            self._has_begun = True
            self._record.append(protocol.Released(began or time.time()))
        if began is not None and rank is not None:
            self._record.append(protocol.RankStarted(rank, pid, began))
            self._first_lines.expect(rank, began)
            self._facts.know(rank, pid)

    def _look_for_first_lines(self) -> None:
        for rank, at in self._first_lines.found(time.time()):
            self._record.append(protocol.FirstLine(rank, at))

    def _on_end(self, ended: Ended, now: float) -> None:
        for descriptor in [each for each, (_, pid) in self._workers.at_gate.items() if pid == ended.pid]:
            self._on_start(descriptor)
        self._look_for_first_lines()
        if ended.rank is None:
            self._on_launcher_end(ended, now)
        else:
            self._on_rank_end(ended, ended.rank, now)

    def _on_launcher_end(self, ended: Ended, now: float) -> None:
        last = self._last_lines(ended)
        symptom = symptoms.symptom(ended.exit_code, ended.signal, "", last)
        failure = self._failure(ended, symptom)
        stopped = ended.was_signalled or self.life.is_stopping
        self._record.append(self._end(ended, last, symptom, stopped=stopped))
        if symptom and failure is not None:
            self._follow(lifecycle.launcher_lost_another(self.life, failure, now))
        else:
            self._follow(lifecycle.launcher_ended(self.life, failure, now, self.task.grace_s))

    def _on_rank_end(self, ended: Ended, rank: int, now: float) -> None:
        last = self._last_lines(ended)
        raised_at = rank_states.written_at(rank, self.streams) if symptoms.ends_with_exception(last) else 0.0
        if ended.exit_code == 1 and 0.0 < raised_at < self._terminated_at:
            ended = replace(ended, was_signalled=False)
        error = rank_report.error(self._record.directory, rank, self.mask, self.task.workdir)
        if ended.status == 0 and not ended.was_signalled:
            error = error or symptoms.uncaught(self._written_last(rank))
        exit_code = 1 if error and not ended.status else ended.exit_code
        symptom = symptoms.symptom(exit_code, ended.signal, error, last)
        failure = self._failure(ended, symptom)
        if failure is not None and ended.signal in (None, signal.SIGABRT):
            error = error or symptoms.last_exception(last)
        if failure is not None and not ended.was_signalled:
            error = "; ".join(filter(None, (error, *self._of_node(ended.signal, error))))
        memory = None
        if failure is not None and not symptom:
            by_sigkill = ended.signal == signal.SIGKILL
            is_logged = by_sigkill and self._kernel.has_killed_for_memory(ended.pid)
            memory = self._memory.killer(by_sigkill=by_sigkill, is_logged=is_logged)
        self._record.append(
            replace(
                self._end(ended, last, symptom, stopped=ended.was_signalled), error=error,
                step=rank_report.last_step(self._record.directory, rank), out_of_memory=memory, raised_at=raised_at,
            )
        )  # fmt: skip
        if ended.was_signalled:
            self._signalled.add(rank)
        if symptom and failure is not None:
            self._follow(lifecycle.rank_lost_another(self.life, rank, failure, now))
        else:
            self._follow(lifecycle.rank_ended(self.life, rank, failure, now, self.task.grace_s))
        if self.life.is_held and not self._held_states:
            # Now, because a launcher ends the other ranks when it sees the first failure.
            self._held_states = self._rank_states()
            self._facts.collect(self._workers.pids)

    def _last_lines(self, ended: Ended) -> list[str]:
        name = "launcher" if ended.rank is None else str(ended.rank)
        return last_lines(self.streams[name + ".err"], self.streams[name + ".out"], count=CAUSE_LINES, mask=self.mask)

    def _written_last(self, rank: int) -> list[str]:
        """Return the last lines of stderr of `rank`, in which an exception of a thread may be long ago."""
        return last_lines(self.streams[f"{rank}.err"], count=WRITTEN_LINES, mask=self.mask, within=WRITTEN_BYTES)

    def _end(self, ended: Ended, last: list[str], symptom: str, *, stopped: bool) -> protocol.RankEnd:
        return protocol.RankEnd(
            ended.rank, "", ended.exit_code, ended.signal, ended.time, stopped, tuple(last[-LAST_LINES:]),
            symptom=symptom,
        )  # fmt: skip

    def _failure(self, ended: Ended, symptom: str) -> str | None:
        """Describe the failure; None for a good end, and for a rank that a launcher ends after another failed."""
        if ended.was_signalled and self.life.is_held:
            return None
        if symptom and ended.failure is not None:
            return f"{name_of(ended.rank)} {symptom}"
        if ended.signal in protocol.SIGNALS_TO_ALL and self._workers.ended_from_outside:
            return self._workers.ended_from_outside
        return ended.failure

    def _is_failing(self) -> bool:
        return self.life.awaits_settling and rank_states.are_failing(self.life.running, self.streams)

    def _of_node(self, number: int | None, error: str) -> list[str]:
        """Return what the node explains of a failure: a limit, what it no longer has, full file systems.

        These are those that the run uses; a traceback may be lost there as well.
        """
        temporary = self.task.env.get("TMPDIR", "/tmp")
        own = self._record.directory
        used = [own.path, self.task.workdir, temporary, "/dev/shm", *node_changes.existing_directory(error)]
        full = node_changes.full(used) or node_changes.over_quota(own.stream(".probe"))
        return [*node_changes.limits_reached(number, error), *self._at_start.changes(error), *full]

    def _rank_states(self) -> list[protocol.RankState]:
        """Return the states of ranks that have not ended on their own, now or before a launcher ended them."""
        pids = {rank: pid for pid, rank in self._workers.pids.items() if rank in self.life.running}
        now = rank_states.states(pids, self.streams, self._record.directory, self.mask)
        return [
            *(state for state in self._held_states if state.rank in self._signalled and state.rank not in pids),
            *now,
        ]

    def _follow(self, decided: tuple[lifecycle.Life, list[lifecycle.Action]]) -> None:
        self.life, actions = decided
        self._obey(actions)

    def _obey(self, actions: list[lifecycle.Action]) -> None:
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
                request = protocol.Examine(protocol.UNASKED, within_s=action.within_s)
                self._examinations.begin(request, self._keep_views, now)
            elif isinstance(action, lifecycle.TerminateRanks):
                self._terminated_at = self._terminated_at or time.time()
                for rank in sorted(action.ranks):
                    self._workers.terminate(rank)
            elif isinstance(action, lifecycle.TerminateLauncher):
                self._workers.terminate(None)
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

    def _finish(self, outcome: str, message: str) -> None:
        self._examinations.end()
        left = self._workers.end_container()
        grace_s = 0.0 if self.life.kill_at is not None and time.monotonic() > self.life.kill_at else LEFTOVER_GRACE_S
        left += [f"{process} survives SIGKILL" for process in processes.end_all(self._workers.all_processes, grace_s)]
        list(self._workers.reap(time.time()))
        for lease in self._holdings.leases:
            self._loop.forget(lease)
        self._holdings.drop()
        self._workers.remove_what_they_used()
        left += self._holdings.still_taken()
        self._log_index.note()
        self._scrub()
        self._kernel.close()
        unreadable = rank_files.obstacle(f"{self._record.directory.logs}/.")
        if self._signalled and self._workers.ended_from_outside and self.stopping is None:
            self._record.append(protocol.Stopping(self._workers.ended_from_outside, time.time(), by_hand=False))
        self._record.append(protocol.Finished(left, self._checked_for_leftovers(), time.time(), unreadable))
        self.outcome = NodeOutcome(self.task.run, outcome, message, time.time())

    def _scrub(self) -> None:
        """Remove secrets from the log files of a run that is over."""
        for path in self.streams.values():
            try:
                self.mask.scrub(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                note(f"{path} may still contain a secret of the run: {error.strerror}")

    def _checked_for_leftovers(self) -> list[str]:
        checked = [f"processes of run {self.task.run}"]
        if self._holdings.port is not None:
            checked.append(f"port {self._holdings.port}")
        return checked + [f"lease of device {index}" for index in self.task.devices]
