"""One run on this node, from the moment all of it stands at the gate: what it holds, what has happened, how it ends."""

from __future__ import annotations

import signal
import socket
import time
from functools import partial

from pylaunch.agent import wire
from pylaunch.agent.evidence import disk_space, rank_report, rank_states, symptoms
from pylaunch.agent.evidence.out_of_memory import Memory
from pylaunch.agent.logs.log_index import LogIndex
from pylaunch.agent.logs.log_limit import LogLimit
from pylaunch.agent.logs.tail import LAST_LINES, last_lines
from pylaunch.agent.run import lifecycle, node_environment, prepare, stop_request, trees
from pylaunch.agent.run.spawn import start_time
from pylaunch.agent.run.worker_group import Ended, RankEntry, Started, WorkerGroup, name_of
from pylaunch.agent.shared import clean, local_socket, processes
from pylaunch.agent.shared.layout import NodeRoot
from pylaunch.agent.shared.record import NodeOutcome, Record, note
from pylaunch.agent.wire.loop import Loop

LOOKED_AT = 200
"""Last lines in which the cause of an end is looked for: what aborts may write a long stack trace after it."""

RELEASE_AHEAD_S = 5.0
SHIMS_PER_RANK = 8
"""Connections at a time: a launcher may start a rank again before its last one has gone."""

LEFTOVER_GRACE_S = 2.0

GOES_ON = "pylaunch stop RUN ends that run; kill -CONT PID on the node lets it go on"


class RefusedError(Exception):
    """This node cannot take part, for these reasons."""

    def __init__(self, reasons: list[wire.Reason]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


def prepare_run(asked: wire.Prepare, root: NodeRoot, record: Record, loop: Loop) -> tuple[Run, list[str]]:
    """Clean up after dead runs, check and take everything, and fork all processes: the run, and what was removed.

    Raises RefusedError with all reasons; nothing is held then.
    """
    stopped = stop_request.requested(root, asked.task.run)
    if stopped is not None:
        raise RefusedError([wire.Reason(stop_request.CODE, stopped)])
    cleaned = clean.clean(root)
    try:
        task = trees.placed(node_environment.completed(asked.task), root)
    except node_environment.NodeEnvironmentError as error:
        raise RefusedError([error.reason]) from None
    reasons = [wire.Reason("leftovers-stay", f"{left} of a dead run survives SIGKILL") for left in cleaned.left]
    reasons += [
        wire.Reason("agent-stopped", f"{stopped}; its ranks may run on", GOES_ON) for stopped in cleaned.stopped
    ]
    holdings = prepare.Holdings(task, root)
    reasons += [*prepare.problems(task, record.directory), *holdings.take()]
    crew = WorkerGroup(wire.Prepare(task, asked.secrets), root, record.directory)
    try:
        if not reasons:
            reasons += [wire.Reason("cannot-start", problem) for problem in crew.stand()]
    except OSError as error:
        reasons.append(wire.Reason("cannot-fork", f"a process cannot be started: {error}"))
    if reasons:
        crew.dismiss()
        holdings.drop()
        raise RefusedError(reasons)
    return Run(crew, holdings, record, loop), cleaned.removed


class Run:
    """A run whose every process stands at the gate or has gone through. Times given to it are monotonic."""

    def __init__(self, crew: WorkerGroup, holdings: prepare.Holdings, record: Record, loop: Loop) -> None:
        self.task = crew.task
        self.life = lifecycle.Life(frozenset(rank.rank for rank in self.task.ranks), bool(self.task.launcher))
        self.outcome: NodeOutcome | None = None
        self.mask = crew.mask
        self._crew = crew
        self._holdings = holdings
        self._record = record
        self._loop = loop
        self._release_at: float | None = None
        self._rendezvous_port: int | None = None
        self._has_begun = False
        self._memory = Memory()
        self._told: set[int] = set()
        """Ranks that ended because somebody told them to."""

        self._waiting: list[wire.RankState] = []
        """How the others were when the first rank failed because of another one."""

        record.keep_task(self.task)
        self._log_limit = LogLimit(self.streams.values(), self.task.log_limit)
        self._times = LogIndex(record.directory, self.streams)
        self._shims: list[RankEntry] = []
        listener = local_socket.listen(record.directory.file("ranks.sock"))
        loop.watch(listener, partial(self._accept, listener))
        for started in crew.standing:
            loop.watch(started, partial(self._on_start, started))
        for lease in holdings.leases:
            loop.watch(lease, partial(holdings.answer, lease))

    @property
    def stopping(self) -> wire.Stopping | None:
        """Why it is being stopped, as was said first; None while it is not."""
        return next((event for event in self._record.events if isinstance(event, wire.Stopping)), None)

    @property
    def is_stopped_by_hand(self) -> bool:
        """A person asked for its end."""
        return any(isinstance(event, wire.Stopping) and event.by_hand for event in self._record.events)

    @property
    def streams(self) -> dict[str, str]:
        """Stream name → log file."""
        return self._crew.streams()

    @property
    def chosen_port(self) -> int | None:
        """The rendezvous port, where it was for this node to choose it."""
        return self._holdings.port if self.task.choose_port else None

    def release(self, after_s: float, now: float, port: int | None = None) -> None:
        """Start in `after_s`; at once when that is past or far off. Nothing happens the second time."""
        if self.life.phase == "prepared" and self._release_at is None:
            self._rendezvous_port = port
            self._release_at = now + (after_s if 0 < after_s <= RELEASE_AHEAD_S else 0.0)

    def stop(self, reason: str, grace_s: float, now: float, *, by_hand: bool = False) -> None:
        """End it: what runs gets TERM and, after `grace_s`, KILL; what stands at the gate never goes through."""
        if self.life.phase == "prepared":
            self.abort(reason, by_hand=by_hand)
        else:
            self._follow(lifecycle.stop(self.life, reason, now, grace_s, by_hand=by_hand))

    def abort(self, reason: str, *, by_hand: bool = False) -> None:
        """End it before it began."""
        for started in list(self._crew.standing):
            self._loop.forget(started)
        self._crew.dismiss()
        self._record.append(wire.Stopping(reason, time.time(), by_hand))
        self._finish("aborted", reason)

    def next_deadline(self) -> float | None:
        """When `advance` must be called even if nothing happens."""
        if self._release_at is not None:
            return self._release_at
        deadlines = [lifecycle.next_deadline(self.life), self._log_limit.next_look()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def advance(self, now: float) -> None:
        """Take note of what has ended, and do what is due."""
        if self.outcome is not None:
            return
        self._log_limit.keep(now)
        self._memory.look(now)
        self._times.look(now)
        reaped = list(self._crew.reap(time.time()))
        for shim in list(self._shims):
            # What a rank said before its launcher ended must be heard before the end of the launcher.
            self._hear(shim)
        for ended in reaped:
            if self.life.phase == "prepared":
                self.abort(f"{ended.failure or 'a process ended'} before the start")
                return
            self._on_end(ended, now)
        if self._release_at is not None and now >= self._release_at:
            self._release_at = None
            self._crew.release(self._rendezvous_port)
            self.life = lifecycle.released(self.life)
        self._follow(lifecycle.hold_over(self.life, now, self.task.grace_s))
        self._obey(lifecycle.tick(self.life, now))
        if self.life.is_over or self.life.gave_up(now):
            self._finish("finished", "")

    def _accept(self, listener: socket.socket) -> None:
        connected = local_socket.accept(listener)
        if connected is None:
            return
        shim = RankEntry(connected)
        if len(self._shims) >= SHIMS_PER_RANK * (1 + len(self.task.ranks)):
            shim.close()
            return
        self._shims.append(shim)
        self._loop.watch(shim.socket, partial(self._hear, shim))

    def _hear(self, shim: RankEntry) -> None:
        try:
            for line in shim.receive():
                self._on_shim(shim, line)
        except wire.WireError as error:
            note(str(error))
            shim.is_open = False
        shim.flush()
        if not shim.is_open:
            self._loop.forget(shim.socket)
            self._shims.remove(shim)
            shim.close()

    def _on_shim(self, shim: RankEntry, line: bytes) -> None:
        refusal = None if self.life.phase == "running" and self.outcome is None else "the run is being stopped"
        said = self._crew.admit(shim, line, refusal=refusal)
        if isinstance(said, Started):
            self._record.append(wire.RankStarted(said.rank, said.pid, said.time))
            self._follow(lifecycle.rank_started(self.life, said.rank))
        elif isinstance(said, Ended):
            self._on_end(said, time.monotonic())

    def _on_start(self, descriptor: int) -> None:
        self._loop.forget(descriptor)
        rank, pid = self._crew.standing.pop(descriptor)
        began = start_time(descriptor)
        if self.life.phase == "prepared":
            return
        if not self._has_begun:
            self._has_begun = True
            self._record.append(wire.Released(began or time.time()))
        if began is not None and rank is not None:
            self._record.append(wire.RankStarted(rank, pid, began))

    def _on_end(self, ended: Ended, now: float) -> None:
        for descriptor in [each for each, (_, pid) in self._crew.standing.items() if pid == ended.pid]:
            self._on_start(descriptor)
        name = "launcher" if ended.rank is None else str(ended.rank)
        said = last_lines(self.streams[name + ".err"], self.streams[name + ".out"], count=LOOKED_AT)
        lines = [self.mask.hide_in(line) for line in said[-LAST_LINES:]]
        how = (ended.exit_code, ended.signal, ended.time, lines)
        directory, rank = self._record.directory, ended.rank
        error = "" if rank is None else rank_report.error(directory, rank)
        symptom = symptoms.symptom(ended.exit_code, ended.signal, error, said)
        failure = ended.failure
        if symptom and failure is not None:
            failure = f"{name_of(rank)} {symptom}"
        if ended.was_told and self.life.is_held:
            failure = None  # A launcher ends its other ranks when one has failed.
        grace_s = self.task.grace_s
        if rank is None:
            was_stopping = ended.was_told or self.life.is_stopping
            self._record.append(wire.LauncherEnded(*how, stopped=was_stopping, symptom=symptom))
            if symptom and failure is not None:
                self._follow(lifecycle.launcher_lost_another(self.life, failure, now))
            else:
                self._follow(lifecycle.launcher_ended(self.life, failure, now, grace_s))
        else:
            if failure is not None and ended.signal in (None, signal.SIGABRT):
                error = error or self.mask.hide_in(symptoms.last_exception(said))
            if failure is not None and not ended.was_told:
                error = "; ".join(filter(None, (error, *self._full())))
            step = rank_report.last_step(directory, rank)
            memory = None
            if failure is not None and not symptom:
                memory = self._memory.killer(by_sigkill=ended.signal == signal.SIGKILL)
            self._record.append(
                wire.RankEnded(
                    rank, *how, stopped=ended.was_told, error=error, step=step, symptom=symptom, out_of_memory=memory
                )
            )
            if ended.was_told:
                self._told.add(rank)
            if symptom and failure is not None:
                self._follow(lifecycle.rank_lost_another(self.life, rank, failure, now))
            else:
                self._follow(lifecycle.rank_ended(self.life, rank, failure, now, grace_s))
            if self.life.is_held and not self._waiting:
                # Before a launcher ends the others, which it does when it sees the first failure.
                self._waiting = self._rank_states()

    def _full(self) -> list[str]:
        """File systems that the run uses and that are full: the traceback may have gone there, too."""
        temporary = self.task.env.get("TMPDIR", "/tmp")
        return disk_space.full([self._record.directory.path, self.task.workdir, temporary, "/dev/shm"])

    def _rank_states(self) -> list[wire.RankState]:
        """Ranks that have not ended of their own, as they are now or were before a launcher ended them."""
        pids = {rank: pid for pid, rank in self._crew.pids.items() if rank in self.life.running}
        now = rank_states.states(pids, self.streams, self._record.directory)
        return [*(state for state in self._waiting if state.rank in self._told and state.rank not in pids), *now]

    def _follow(self, decided: tuple[lifecycle.Life, list[lifecycle.Action]]) -> None:
        self.life, actions = decided
        self._obey(actions)

    def _obey(self, actions: list[lifecycle.Action]) -> None:
        for action in actions:
            if isinstance(action, lifecycle.Announce):
                states = self._rank_states()
                self._record.append(wire.Stopping(action.reason, time.time(), action.by_hand, states))
            elif isinstance(action, lifecycle.TerminateRanks):
                for rank in sorted(action.ranks):
                    self._crew.terminate(rank)
            elif isinstance(action, lifecycle.TerminateLauncher):
                self._crew.terminate(None)
            else:
                self._crew.kill_everything()

    def _finish(self, outcome: str, message: str) -> None:
        grace_s = 0.0 if self.life.kill_at is not None and time.monotonic() > self.life.kill_at else LEFTOVER_GRACE_S
        left = [f"{process} survives SIGKILL" for process in processes.end_all(self._crew.family, grace_s)]
        list(self._crew.reap(time.time()))
        for lease in self._holdings.leases:
            self._loop.forget(lease)
        self._holdings.drop()
        self._crew.remove_launcher_files()
        left += self._holdings.still_taken()
        self._times.note()
        self._scrub()
        self._record.append(wire.Finished(left, self._checked(), time.time()))
        self.outcome = NodeOutcome(self.task.run, outcome, message, time.time())

    def _scrub(self) -> None:
        """No secret stays in the log files of a run that is over."""
        for path in self.streams.values():
            try:
                self.mask.scrub(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                note(f"{path} may still contain a secret of the run: {error.strerror}")

    def _checked(self) -> list[str]:
        checked = [f"processes of run {self.task.run}"]
        if self._holdings.port is not None:
            checked.append(f"port {self._holdings.port}")
        return checked + [f"lease of device {index}" for index in self.task.devices]
