"""Worker group: the processes of one run on this node, either the ranks or a launcher and the ranks that it starts."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterator

from pylaunch import protocol
from pylaunch.agent.evidence import rank_report, rank_states
from pylaunch.agent.evidence.rank_ends import LAUNCHER, Ended, name_of
from pylaunch.agent.in_rank import sitecustomize
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import last_lines
from pylaunch.agent.run import environment, spawn
from pylaunch.agent.run.rank_entry import SOCKET
from pylaunch.agent.shared import processes, rank_files
from pylaunch.agent.shared.event_loop import EventLoop, Lines, Part
from pylaunch.agent.shared.record import note
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import NodeRoot, RunDirectory
from pylaunch.base.rank_environment import JOB, RUNTIME_PATH, Layer, composed_values
from pylaunch.base.untrusted_json import parse_object
from pylaunch.protocol.fields import checked

if TYPE_CHECKING:
    from pylaunch.agent.containers import JoinableContainer


IN_RANK = "pylaunch/agent/in_rank"
"""Directory of the archive that leads PYTHONPATH of ranks, whose sitecustomize answers the agent's questions."""


@dataclass(frozen=True)
class Started:
    """Start of a rank by the launcher."""

    rank: int
    pid: int
    time: float


def archive() -> str:
    """The file that this agent runs from."""
    return os.path.realpath(sys.argv[0])


ENTRIES_PER_RANK = 8
"""Connections at a time: a launcher may restart a rank before the previous one is gone."""

MOST_PROCESSES = 1 << 22
"""The largest process id of Linux (proc(5), pid_max)."""

MOST_REPORTS = 64
"""Starts and ends of one rank that its entries may report: each becomes an event of the run."""


def _whole_number(value: int, least: int, most: int) -> int:
    """Return `value` if it is an integer within these bounds. Raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(value)
    return value


class RankConnection(Lines):
    """Connection of a rank entry, the process that the launcher starts for each rank."""

    rank: int | None = None

    def send(self, body: dict[str, object]) -> None:
        """Send `body` as one line."""
        self.put(json.dumps(body).encode() + b"\n")
        self.flush()


class RankEntries(Part):
    """Connections of the rank entries of a run; `on_line` gets each of their messages, and raises WireError."""

    def __init__(
        self, directory: RunDirectory, task: protocol.NodeTask, on_line: Callable[[RankConnection, bytes], None]
    ) -> None:  # fmt: skip
        self._path = directory.file("ranks.sock")
        self._most = ENTRIES_PER_RANK * (1 + len(task.ranks))
        self._on_line = on_line
        self._entries: list[RankConnection] = []

    def begin(self, loop: EventLoop) -> None:
        """Listen for rank entries."""
        self._loop = loop
        listener = local_socket.listen(self._path)
        loop.watch(listener, partial(self._accept, listener))

    def receive_all(self) -> None:
        """Receive what has arrived: a rank may have reported its end before its launcher ended."""
        for entry in list(self._entries):
            self._receive(entry)

    def _accept(self, listener: socket.socket) -> None:
        connected = local_socket.accept(listener)
        if connected is None:
            return
        entry = RankConnection(connected)
        if len(self._entries) >= self._most:
            entry.close()
            return
        self._entries.append(entry)
        self._loop.watch(entry.socket, partial(self._receive, entry))

    def _receive(self, entry: RankConnection) -> None:
        try:
            for line in entry.receive():
                self._on_line(entry, line)
        except protocol.WireError as error:
            note(str(error))
            entry.is_open = False
        entry.flush()
        if not entry.is_open:
            self._loop.forget(entry.socket)
            self._entries.remove(entry)
            entry.close()


class WorkerGroup:
    """Processes of one run, from the fork to their end."""

    def __init__(
        self,
        asked: protocol.Prepare,
        root: NodeRoot,
        directory: RunDirectory,
        container: JoinableContainer | None = None,
    ) -> None:
        self.task = task = asked.task
        self.container = container
        recorder = environment.recorder_settings(task, directory)
        self._layers = {Layer.RECORDER: recorder, JOB: task.env, Layer.SECRETS: asked.secrets}
        path = composed_values(self._layers).get(RUNTIME_PATH)
        hook = os.path.join(archive(), IN_RANK) if task.rank_thread else None
        self.mask = Mask([*asked.secrets.values(), *task.secret_arguments])
        self.root = root
        self._directory = directory
        self._agent_variables = {
            processes.RUN_MARK: task.run,
            processes.ROOT_MARK: root.path,
            "PYLAUNCH_NODE_RANK": str(task.node_rank),
            "PYLAUNCH_HOSTFILE": directory.file("hostfile"),
            RUNTIME_PATH: os.pathsep.join(filter(None, (hook, path, archive()))),
        }
        self.pids: dict[int, int | None] = {}
        """Process id → rank, or None for the launcher, of each process that runs."""

        self._entries: dict[int, RankConnection] = {}
        self._reports: Counter[int] = Counter()
        """Starts and ends of each rank, as its entries reported them."""

        self._signalled: set[int] = set()
        """Process ids that received SIGTERM."""

        self.ended_from_outside = ""
        """Reason of the stop after SIGTERM to this process: Slurm and systemd send it to the ranks at the same time."""

        self.at_gate: dict[int, tuple[int | None, int]] = {}
        """Descriptor that is readable when a process passes the gate (see `spawn.start_time`) → rank, process id."""

        self._gate = os.pipe()
        self._port = 0
        self._short_directory: str | None = None

    def given(self, rank: int) -> dict[str, str]:
        """Return the variables with the place of `rank` in the run; the port is known from the release on."""
        env = next((each.env for each in self.task.ranks if each.rank == rank), {})
        values = {name: spawn.with_port(value, self._port) for name, value in env.items()}
        return {name: value for name, value in values.items() if spawn.PORT_ENTRY not in value}

    def fork_to_gate(self) -> Iterator[str]:
        """Fork the launcher or the ranks and wait until they are at the gate. Yields a reason for each that fails."""
        rank_report.make_room(self._directory)
        rank_files.replace(self._directory.file("hostfile"), self.task.hostfile.encode("utf-8", "surrogateescape"))
        programs: list[tuple[int | None, list[str], dict[Layer, dict[str, str]]]]
        if self.task.launcher:
            # A launcher needs none of our modules, and looks for each of its own there first.
            own = {name: value for name, value in self._agent_variables.items() if name != RUNTIME_PATH}
            own[SOCKET] = self._directory.file("ranks.sock")
            programs = [(None, self._launcher_words(), {Layer.AGENT: own})]
        else:
            programs = [(rank.rank, self._rank_words(rank.argv), self._rank_layers(rank)) for rank in self.task.ranks]
        join = None if self.container is None else self.container.join
        needs = [need.path for need in self.task.needs]
        for rank, argv, layers in programs:
            env = composed_values({**self._layers, **layers})
            what = spawn.Exec(argv, env, self.task.workdir, join, needs)
            pid, started = spawn.spawn(what, self._outputs(rank), self._gate)
            self.pids[pid] = rank
            self.at_gate[started] = (rank, pid)
        for started, (rank, _) in self.at_gate.items():
            if not spawn.reached_gate(started):
                yield (
                    " ".join(last_lines(self._outputs(rank)[1], count=1, mask=self.mask))
                    or f"{name_of(rank)} ended before the start"
                )

    def release(self, port: int | None) -> None:
        """Release all processes at the gate; `port` is the rendezvous port if a node chose it."""
        self._port = port or 0
        os.write(self._gate[1], spawn.tokens(len(self.pids), self._port))
        self._close_gate()

    def kill_at_gate(self) -> None:
        """Kill the processes at the gate, so that nothing is exec'd."""
        self._close_gate()
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for started in self.at_gate:
            os.close(started)
        self.pids.clear()
        self.at_gate.clear()

    def _close_gate(self) -> None:
        for end in self._gate:
            os.close(end)

    def _launcher_words(self) -> list[str]:
        interpreter = sys.executable if self.container is None else self.task.python
        entry = [interpreter, "-I", "-S", archive(), "rank"]
        files = self._directory.file(LAUNCHER)
        given = [word.replace(protocol.LAUNCHER_FILES, files) for word in self.task.launcher]
        return [each for word in given for each in (entry if word == protocol.RANK_ENTRY else [word])]

    def _rank_words(self, argv: list[str]) -> list[str]:
        if protocol.SHORT_DIRECTORY not in argv:
            return argv
        if self._short_directory is None:
            import tempfile  # noqa: PLC0415 -- 6 ms that other runs do not need

            self._short_directory = tempfile.mkdtemp(prefix=f"pylaunch-{self.task.run[:12]}-", dir="/tmp")
            os.symlink(self._short_directory, self._directory.short)  # For a later cleanup.
        return [self._short_directory if word == protocol.SHORT_DIRECTORY else word for word in argv]

    def remove_what_they_used(self) -> None:
        """Remove directories: those that torchrun never removes, and the short one."""
        rank_files.remove(self._directory.file(LAUNCHER))
        if self._short_directory is not None:
            rank_files.remove(self._short_directory)

    def _rank_layers(self, rank: protocol.RankTask) -> dict[Layer, dict[str, str]]:
        """Return the layers of `rank` alone."""
        names = {"PYLAUNCH_RANK": str(rank.rank), "PYLAUNCH_LOCAL_RANK": str(rank.local_rank)}
        files = rank_report.environment(self._directory, rank.rank)
        if self.task.rank_thread:
            files[sitecustomize.VARIABLE] = self._directory.of_rank(rank.rank, rank_report.SOCKET)
        return {Layer.IDENTITY: rank.env, Layer.AGENT: {**self._agent_variables, **names, **files}}

    def streams(self) -> dict[str, str]:
        """Return the log file of each stream, by name."""
        names = [LAUNCHER] if self.task.launcher else []
        names += [str(rank.rank) for rank in self.task.ranks]
        streams = [f"{name}.{end}" for name in names for end in ("out", "err")]
        return {stream: self._directory.stream(stream) for stream in streams}

    def _outputs(self, rank: int | None) -> tuple[str, str]:
        name = LAUNCHER if rank is None else str(rank)
        return self._directory.stream(name + ".out"), self._directory.stream(name + ".err")

    def on_message(self, entry: RankConnection, line: bytes, *, refusal: str | None) -> Started | Ended | None:
        """Handle a message of a rank entry: its local rank, the start of its rank, or the end of its rank.

        Raises WireError for anything else.
        """
        try:
            return self._handle(entry, parse_object(line, protocol.MAX_LINE), refusal)
        except (ValueError, KeyError, TypeError):
            raise protocol.WireError(f"unexpected message from a rank entry: {line[:200]!r}") from None

    def _handle(self, entry: RankConnection, body: dict[str, Any], refusal: str | None) -> Started | Ended | None:
        if entry.rank is None:
            entry.send(self._answer(entry, body["local_rank"], refusal))
            return None
        self._reports[entry.rank] += 1
        if self._reports[entry.rank] > MOST_REPORTS:
            raise ValueError("more starts and ends of a rank than a launcher causes")
        if "started" in body:
            pid = _whole_number(body["started"], 2, MOST_PROCESSES)
            self.pids[pid] = entry.rank
            self._entries[entry.rank] = entry
            return Started(entry.rank, pid, checked("float", body["time"], "time", {}))
        status, time = _whole_number(body["ended"], 0, 0xFFFF), checked("float", body["time"], "time", {})
        was_signalled = body["signalled"] is True
        self._entries.pop(entry.rank, None)
        pid = next((pid for pid, rank in self.pids.items() if rank == entry.rank), 0)
        self.pids.pop(pid, None)
        return Ended(entry.rank, pid, status, time, was_signalled=was_signalled)

    def _answer(self, entry: RankConnection, local_rank: int, refusal: str | None) -> dict[str, object]:
        mine = next((rank for rank in self.task.ranks if rank.local_rank == local_rank), None)
        if mine is None or refusal is not None:
            return {"refused": refusal or f"run {self.task.run} has no local rank {local_rank} on this node"}
        entry.rank = mine.rank
        variables = composed_values(self._rank_layers(mine))
        env = {name: spawn.with_port(value, self._port) for name, value in variables.items()}
        return {"argv": mine.argv, "env": env, "outputs": list(self._outputs(mine.rank))}

    def reap(self, time: float) -> Iterator[Ended]:
        """Reap all children that have ended and yield those that are ranks or the launcher."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.pids:
                rank = self.pids.pop(pid)
                if rank is not None:
                    self._entries.pop(rank, None)
                was_signalled = pid in self._signalled or (bool(self.ended_from_outside) and status == 0)
                yield Ended(rank, pid, status, time, was_signalled=was_signalled)

    def terminate(self, rank: int | None) -> None:
        """Send SIGTERM to the launcher (None), or to a rank, through its rank entry if a launcher started it."""
        entry = self._entries.get(rank) if rank is not None else None
        for pid in [pid for pid, name in self.pids.items() if name == rank]:
            if entry is None and rank_states.state(pid) == "Z":
                continue  # It ended on its own, and is not reaped yet.
            self._signalled.add(pid)
            if entry is None:
                os.kill(pid, signal.SIGTERM)
            else:
                entry.send({"signal": int(signal.SIGTERM)})

    def all_processes(self) -> list[processes.Process]:
        """Return every live process of the run, including descendants that left its session."""
        return processes.of_run(self.task.run, self.root.path)

    def kill_everything(self) -> None:
        """Send SIGKILL to every live process of the run, but those of the engine that holds the container."""
        self._signalled.update(self.pids)
        held = self.container.processes if self.container is not None else ()
        for process in self.all_processes():
            if process.pid not in held:
                processes.send(process, signal.SIGKILL)

    def end_container(self) -> list[str]:
        """End the container, if there is one; return why it is left."""
        container, self.container = self.container, None
        return container.end() if container is not None else []
