"""Supervisor of one run: a daemon that serves any number of controllers, from Prepare until the run is over."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time

from pylaunch import protocol
from pylaunch.agent.evidence import rank_report
from pylaunch.agent.logs import log_files
from pylaunch.agent.logs.tail import LogFollower
from pylaunch.agent.peers import Peers, PeerStatus
from pylaunch.agent.run import spawn
from pylaunch.agent.run.environment import RefusedError
from pylaunch.agent.run.prepare import prepare_run
from pylaunch.agent.run.run import Run
from pylaunch.agent.shared import leases, processes, rank_files, record, run_processes
from pylaunch.agent.shared.event_loop import EventLoop, Lines
from pylaunch.agent.shared.record import NodeOutcome, Record
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.base.dataclass import replace
from pylaunch.base.layout import SOCKETS, NodeRoot, RunDirectory
from pylaunch.protocol.heartbeats import Heartbeats

HIGH_WATER = 256 * 1024
"""Bytes in the send buffer above which no more log output is read."""


class Controller(Lines):
    """Connected controller."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.follower: LogFollower | None = None
        self.pending_follow: protocol.Follow | None = None
        """`Follow` that was received and is not obeyed yet."""

        self.is_subscribed = False
        """Events are sent to this controller: it prepared, follows or stopped the run."""

        self.awaits_follow = False
        """The controller released the run and has not sent `Follow` yet: `Finished` is withheld until it does."""

        self._observed: Run | None = None
        """Run whose signs of life this controller requested, every `_activity_s`."""

        self._activity_s = 0.0
        self._next_activity = 0.0
        self._next_event = 0
        self._is_caught_up = True

    def send(self, message: object) -> None:
        """Queue `message` ahead of events and output that are not queued yet."""
        self.put(protocol.encode(message))

    def start_following(self, run: Run) -> None:
        """Obey a pending `Follow`."""
        follow, self.pending_follow = self.pending_follow, None
        if follow is not None:
            self.follower = LogFollower(run.streams, follow, mask=run.mask)
            self.follower.dates = log_files.Dates(run.directory)
            self._activity_s, self._observed = follow.activity_s, run if follow.activity_s > 0 else None
            self._is_caught_up = False

    def queue_available(self, events: list[object], *, ended: bool) -> bool:
        """Queue events and output while the buffer has room. Return whether more may be available.

        `Finished` is last: a follower receives all output before it.
        """
        if not self.is_subscribed:
            return False
        while self.waiting < HIGH_WATER:
            # After the output so far: a view of the run is complete with the first signs of life.
            if self._is_caught_up and not ended and self._observed is not None:
                self._send_activity(self._observed, time.monotonic())
            message = self._next_message(events, ended=ended)
            if message is None:
                return False
            self.send(message)
        return True

    def _send_activity(self, run: Run, now: float) -> None:
        """Queue the signs of life of the ranks that run, if they are due."""
        if now < self._next_activity:
            return
        self._next_activity = now + self._activity_s
        signs = []
        for rank in sorted(run.live_ranks):
            written = sum(rank_files.size(run.streams[f"{rank}.{end}"]) for end in ("out", "err"))
            mark = rank_report.last_mark(run.directory, rank)
            signs.append(
                protocol.RankSigns(rank, written, *(() if mark is None else (mark.step, mark.time, mark.total)))
            )
        self.send(protocol.Activity(signs))

    def _next_message(self, events: list[object], *, ended: bool) -> object | None:
        event = events[self._next_event] if self._next_event < len(events) else None
        if event is None or isinstance(event, protocol.Finished):
            output = self._next_output(self.follower, ended=ended) if self.follower is not None else None
            if output is not None:
                return output
            if self.awaits_follow:
                return None
        if event is not None:
            self._next_event += 1
        return event

    def _next_output(
        self, follower: LogFollower, *, ended: bool
    ) -> protocol.Output | protocol.Skipped | protocol.CaughtUp | None:
        if not self._is_caught_up and follower.has_caught_up:
            self._is_caught_up = True
            return protocol.CaughtUp()
        return follower.next(ended=ended)

    def has_everything(self, events: list[object]) -> bool:
        """Return whether every event has been sent to this subscriber."""
        return self.is_subscribed and not self.waiting and self._next_event == len(events)


UNRELEASED_S = 600.0
"""Seconds that a supervisor waits for Prepare and Release."""

STOPS = {signal.SIGTERM, signal.SIGINT}
"""Signals that stop the run. They are blocked until this process watches for them."""

MOST_CONTROLLERS = 100
CONTROLLER = "controller"
LOOK_S = 0.1
"""Time between two looks at the logs of ranks that a controller follows."""

HEARTBEAT_CHECK_S = 1.0
"""Seconds between two checks of the heartbeats."""

DRAIN_S = 10.0
"""Seconds that a supervisor whose run is over waits for a controller that reads nothing."""

UNFOLLOWED_S = 60.0
"""Seconds that it waits for the Follow of a controller that has released it and still waits for other nodes."""


def hello(phase: str, running: list[int], node: str) -> protocol.Hello:
    """Return the first message of every connection."""
    return protocol.Hello(protocol.PROTOCOL, os.getpid(), phase, running, node)


class Supervisor:
    """Serve one run until it is over."""

    def __init__(self, root: NodeRoot, directory: RunDirectory, listener: socket.socket) -> None:
        self._root = root
        self.directory = directory
        self._loop = EventLoop()
        self._record = Record(directory)
        self._run: Run | None = None
        self._peers: Peers | None = None
        self._controller_heartbeats: Heartbeats | None = None
        """Time of the last message of a controller, from the release on."""

        self._outcome: NodeOutcome | None = None
        self._peer_reason = ""
        """Reason of the stop, if it came from another node."""

        self._owner: Controller | None = None
        self._controllers: list[Controller] = []
        self._deadline = time.monotonic() + UNRELEASED_S
        """Deadline for Prepare and Release; after the end of the run, for controllers to read the rest."""

        self._loop.watch(listener, lambda: self._accept(listener))

    def serve(self) -> None:
        """Run until the run is over and every subscriber and neighbour knows it."""
        spawn.adopt_orphans()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._loop.watch_signals({*STOPS, signal.SIGCHLD}, self._on_signals)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        while not self._is_done(time.monotonic()):
            self._loop.wait(self._timeout(time.monotonic()))
            self._advance(time.monotonic())
            for controller in list(self._controllers):
                self._serve_controller(controller)
        for name in SOCKETS:
            rank_files.remove(self.directory.file(name))

    @property
    def _phase(self) -> str:
        if self._outcome is not None:
            return "finished"
        return "new" if self._run is None else self._run.life.phase

    def _timeout(self, now: float) -> float:
        """Return the seconds to the next deadline, or to the next look at the logs for a controller that follows."""
        times = [self._deadline] if self._phase in ("new", "prepared", "finished") else [now + HEARTBEAT_CHECK_S]
        deadline = self._run.deadline() if self._run is not None and self._outcome is None else None
        if deadline is not None:
            times.append(max(deadline, now + LOOK_S) if self._phase == "stopping" else deadline)
        if self._outcome is None and any(controller.follower for controller in self._controllers):
            times.append(now + LOOK_S)
        next_peer_message = self._peers.next_deadline() if self._peers is not None else None
        if next_peer_message is not None:
            times.append(next_peer_message)
        return max(0.0, min(times) - now)

    def _is_done(self, now: float) -> bool:
        if self._outcome is None:
            return False
        if now <= self._deadline and self._controllers:
            return False
        return self._peers is None or self._peers.is_done

    # Signals and time

    def _on_signals(self, arrived: set[int]) -> None:
        if signal.SIGTERM in arrived or signal.SIGINT in arrived:
            task = self._run.task if self._run else None
            self._stop(protocol.SIGNALLED, max(task.grace_s, task.stop_grace_s) if task else 0.0)

    def _advance(self, now: float) -> None:
        if self._outcome is None:
            self._advance_run(now)
        if self._peers is not None:
            self._advance_peers(self._peers)

    def _advance_run(self, now: float) -> None:
        if self._run is not None:
            self._run.advance(now)
        if self._phase in ("new", "prepared") and now > self._deadline:
            self._stop(f"no controller sent Prepare and Release within {UNRELEASED_S:.0f} s", 0.0)
        if self._run is not None and self._run.outcome is not None:
            self._end(self._run.outcome)
        elif self._phase == "running":
            self._check_heartbeats(now)

    def _check_heartbeats(self, now: float) -> None:
        """Stop if a node is lost, because ranks would wait for it forever. A connected controller decides instead."""
        assert self._run is not None
        assert self._controller_heartbeats is not None
        self._controller_heartbeats.check_pause(now)
        task = self._run.task
        if not self._controller_heartbeats.silent(now, task.node_timeout_s):
            return
        if task.ends_with_controller:
            self._stop(f"no heartbeat from the controller for {task.node_timeout_s:g} s", task.grace_s, by_hand=True)
        elif self._peers is not None and (lost := self._peers.silent(task.node_timeout_s)):
            self._stop(f"{lost[0]} lost: no heartbeat for {task.node_timeout_s:g} s", task.grace_s)

    def _advance_peers(self, peers: Peers) -> None:
        run = self._run
        assert run is not None
        if run.stopping is not None:
            kill_at = run.life.kill_at or time.monotonic()
            peers.announce_stop(self._with_host(run.stopping), kill_at, by_hand=run.is_stopped_by_hand)
        if self._outcome is not None:
            peers.announce_end()
        peers.advance()

    def _with_host(self, stopping: protocol.Stopping) -> str:
        """Return the reason, with the host where the stop began unless a person or another node gave the reason."""
        assert self._run is not None
        host = "" if stopping.by_hand else f"{self._run.task.host}: "
        return self._peer_reason or f"{host}{stopping.reason}"

    def _on_peer_stop(self, status: PeerStatus) -> None:
        if self._phase in ("prepared", "running"):
            self._peer_reason = status.stop
            self._stop(status.stop, status.grace_s, by_hand=status.by_hand)

    def _stop(self, reason: str, grace_s: float, *, by_hand: bool = False) -> None:
        if by_hand:
            record.keep_stop_request(self.directory, reason)
        if self._run is not None:
            self._run.stop(reason, grace_s, time.monotonic(), by_hand=by_hand)
        elif self._outcome is None:
            for controller in self._controllers:
                # Also a controller that has sent nothing yet.
                controller.is_subscribed = True
            self._record.append(protocol.Stopping(reason, time.time(), by_hand))
            self._record.append(protocol.Finished([]))
            self._end(NodeOutcome("aborted", reason))

    def _end(self, outcome: NodeOutcome) -> None:
        self._outcome = outcome
        self._record.close(outcome)
        is_awaited = any(controller.awaits_follow for controller in self._controllers)
        self._deadline = time.monotonic() + (UNFOLLOWED_S if is_awaited else DRAIN_S)

    # Controllers

    def _accept(self, listener: socket.socket) -> None:
        connected = local_socket.accept(listener)
        if connected is None or len(self._controllers) >= MOST_CONTROLLERS:
            if connected is not None:
                connected.close()
            return
        controller = Controller(connected)
        self._controllers.append(controller)
        if self._outcome is not None:
            self._deadline = max(self._deadline, time.monotonic() + DRAIN_S)
        self._loop.watch(controller.socket, lambda: self._receive(controller))
        running, node = (sorted(self._run.life.running), self._run.task.host) if self._run is not None else ([], "")
        controller.send(hello(self._phase, running, node))

    def _receive(self, controller: Controller) -> None:
        try:
            for line in controller.receive():
                self._on_message(controller, protocol.decode(line))
        except protocol.WireError as error:
            self._reject(controller, str(error))
        except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
            import traceback  # noqa: PLC0415 -- milliseconds that only a value which no system call takes costs

            traceback.print_exc()
            self._reject(controller, repr(error))

    def _reject(self, controller: Controller, reason: str) -> None:
        controller.send(protocol.Failed(reason))
        controller.flush()
        controller.is_open = False

    def _on_message(self, controller: Controller, message: object) -> None:
        if isinstance(message, protocol.Ping):
            self._answer_ping(controller, message)
        elif isinstance(message, protocol.Prepare):
            self._prepare(controller, message)
        elif isinstance(message, protocol.TryPeers):
            ends = {} if self._peers is None else self._peers.try_all(message.ports)
            controller.send(protocol.PeersTried(ends))
        elif isinstance(message, protocol.Release):
            if controller is not self._owner or self._run is None:
                raise protocol.WireError("Release from a connection that has not prepared the run")
            controller.awaits_follow = controller.pending_follow is None and controller.follower is None
            self._controller_heartbeats = Heartbeats([CONTROLLER], time.monotonic())
            if self._peers is not None:
                self._peers.start(message.ports, message.key)
            self._run.release(message.at - time.time(), time.monotonic(), message.rendezvous_port)
        elif isinstance(message, protocol.Follow):
            controller.is_subscribed = True
            controller.pending_follow = message
            controller.awaits_follow = False
        elif isinstance(message, protocol.Examine):
            self._examine(controller, message)
        elif isinstance(message, protocol.Stop):
            controller.is_subscribed = True
            controller.awaits_follow = False
            self._stop(message.reason, message.grace_s, by_hand=message.by_hand)
        else:
            raise protocol.WireError(f"{type(message).__name__} is not for an agent")

    def _answer_ping(self, controller: Controller, message: protocol.Ping) -> None:
        if message.leads and self._controller_heartbeats is not None:
            self._controller_heartbeats.beat(CONTROLLER, time.monotonic())
        controller.send(protocol.Pong(time.time()))
        controller.flush()

    def _examine(self, controller: Controller, request: protocol.Examine) -> None:
        def deliver(views: list[protocol.RankView], facts: protocol.HostEvidence | None) -> None:
            for view in views:
                controller.send(view)
            if facts is not None:
                controller.send(facts)
            controller.send(protocol.Examined(request.serial))
            controller.flush()

        if self._run is None or self._outcome is not None:
            deliver([], None)
        else:
            self._run.examine(request, deliver)

    def _prepare(self, controller: Controller, message: protocol.Prepare) -> None:
        task = message.task
        if self._phase != "new":
            reason = protocol.Reason("already-prepared", f"run {task.run} is {self._phase} on this host", "")
            controller.send(protocol.Refused([reason]))
            return
        if task.run != self.directory.run:
            raise protocol.WireError(f"Prepare for run {task.run} sent to the agent of run {self.directory.run}")
        try:
            self._run, ready = prepare_run(message, self._root, self._record, self._loop)
        except RefusedError as refusal:
            controller.send(protocol.Refused([*refusal.reasons]))
            controller.is_subscribed = True
            self._end(NodeOutcome("refused", str(refusal)))
            return
        self._peers = Peers(self._loop, task.host, task.peers, self._on_peer_stop)
        self._owner = controller
        controller.is_subscribed = True
        controller.send(replace(ready, port=self._peers.port))

    def _serve_controller(self, controller: Controller) -> None:
        if self._run is not None:
            controller.start_following(self._run)
        more = controller.queue_available(self._record.events, ended=self._outcome is not None)
        if controller.flush() and controller.is_subscribed:
            self._deadline = max(self._deadline, time.monotonic() + DRAIN_S)
        if not controller.is_open or (self._outcome is not None and controller.has_everything(self._record.events)):
            self._drop(controller)
        else:
            self._loop.watch_writing(controller.socket, wanted=more or controller.waiting > 0)

    def _drop(self, controller: Controller) -> None:
        self._loop.forget(controller.socket)
        self._controllers.remove(controller)
        controller.close()
        if self._phase == "prepared" and controller is self._owner:
            self._stop("the controller disconnected before the start", 0.0)
        elif self._phase == "new" and not self._controllers:
            self._stop("the controller disconnected before Prepare", 0.0)


def start_supervisor(root: NodeRoot, directory: RunDirectory) -> None:
    """Fork the supervisor of a run, unless it has one or is over."""
    for made in (directory.path, directory.logs):
        os.makedirs(made, mode=0o700, exist_ok=True)
    held = None if directory.is_over else run_processes.lock(directory)
    if held is None:
        return
    with contextlib.ExitStack() as ours:  # The daemon of a job lives on if this fails, and must not keep the lock.
        ours.callback(os.close, held)
        listener = ours.enter_context(local_socket.listen(directory.file("agent.sock")))
        # That daemon may pass a signal on before the supervisor watches for signals: it waits until then.
        before, child = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS), -1
        try:
            child = os.fork()
        finally:
            if child:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                _become_daemon(directory, keep=(held, listener.fileno()))
                leases.show_run(directory.run)
                _supervise(Supervisor(root, directory, listener))
            os._exit(0)
        os.waitpid(child, 0)


def _supervise(supervisor: Supervisor) -> None:
    """Run `supervisor` and end this process with it. A bug leaves its traceback in agent.log."""
    try:
        supervisor.serve()
    except Exception:  # noqa: BLE001 -- the boundary of this process
        import traceback  # noqa: PLC0415 -- milliseconds that only a bug costs

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _become_daemon(directory: RunDirectory, keep: tuple[int, ...]) -> None:
    os.chdir("/")
    os.umask(0o077)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = rank_files.open_regular(directory.file("agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    processes.close_files(keep)
