"""A controller for tests: the agent's archive as a child process, and the wire on its pipes, with a deadline."""

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pylaunch import protocol
from tests.waiting import DEADLINE_S, wait_until

POLL_S = 0.01
T = TypeVar("T")
ALTERED = (
    "import sys; del sys.argv[0]; sys.path[:0] = [f'{sys.argv[0]}.{sys.implementation.cache_tag}', sys.argv[0]]; %s;"
    "from pylaunch.agent.commands import main; sys.exit(main())"
)


def is_alive(pid: int) -> bool:
    """Return whether `pid` exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone(*pids: int) -> None:
    """Wait until none of `pids` exists."""
    wait_until(lambda: not any(map(is_alive, pids)), f"the end of {pids}")


class Controller:
    """One connection to an agent."""

    def __init__(self, words: list[str]) -> None:
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._inbox = b""
        self.received: list[Any] = []

    def send(self, *messages: object) -> None:
        os.write(self._to, b"".join(protocol.encode(message) for message in messages))

    def receive(self, deadline_s: float = DEADLINE_S) -> Any:
        """Return the next message; None at the end."""
        until = time.monotonic() + deadline_s
        while b"\n" not in self._inbox:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"no message in {deadline_s} s after {self.last_messages()}"
            chunk = os.read(self._from, 1 << 16)
            if not chunk:
                return None
            self._inbox += chunk
        line, _, self._inbox = self._inbox.partition(b"\n")
        message = protocol.decode(line)
        self.received.append(message)
        return message

    def until(self, *kinds: type[T]) -> T:
        """Return the next message of one of `kinds`."""
        while True:
            message = self.receive()
            assert message is not None, f"no {[kind.__name__ for kind in kinds]} before the end: {self.last_messages()}"
            if isinstance(message, kinds):
                return message

    def last_messages(self) -> str:
        """Return the last messages, shortened."""
        return "; ".join(str(message)[:300] for message in self.received[-5:])

    def all(self, kind: type[T]) -> list[T]:
        """Return the messages of this kind so far."""
        return [message for message in self.received if isinstance(message, kind)]

    def rest(self) -> Iterator[Any]:
        """Yield the messages until the end."""
        while (message := self.receive()) is not None:
            yield message

    def text(self, stream: str) -> str:
        return "".join(output.text for output in self.all(protocol.Output) if output.stream == stream)

    def until_text(self, stream: str, words: str) -> None:
        """Wait until `words` are in what `stream` carries."""
        while words not in self.text(stream):
            self.until(protocol.Output)

    def ended(self, rank: int | None) -> protocol.RankEnd:
        return next(ended for ended in self.all(protocol.RankEnd) if ended.rank == rank)

    def pid(self, rank: int) -> int:
        """Return the process id of `rank`, once it has started."""
        while not any(started.rank == rank for started in self.all(protocol.RankStarted)):
            self.until(protocol.RankStarted)
        return [started.pid for started in self.all(protocol.RankStarted) if started.rank == rank][-1]

    def disconnect(self) -> None:
        """Close the connection, and wait for the relay to end."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(DEADLINE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Node:
    """A node root, and the agent's archive with it."""

    def __init__(self, root: Path, archive: Path) -> None:
        self.root = root
        self.archive = archive
        self.altered_by = ""
        """Statement of Python with which agents that start from now on begin."""

        self._controllers: list[Controller] = []

    def words(self, verb: str, *more: str) -> list[str]:
        program = ["-c", ALTERED % self.altered_by] if self.altered_by else []
        return [sys.executable, "-I", *program, str(self.archive), verb, "--root", str(self.root), *more]

    def ask(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(verb, *more), capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    def cleaned(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Return what `pylaunch clean` removes here, and what it leaves."""
        call = f"cleanup.of_dead_runs({str(self.root)!r}, [], dry_run={dry_run}, questions={{}})"
        words = [sys.executable, "-c", f"from pylaunch.agent.piped import cleanup; {call}"]
        ended = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S)
        return dict(json.loads(ended.stdout))

    def open(self, run: str = "r1") -> Controller:
        return self._talk("open", run)

    def attach(self, run: str = "r1") -> Controller:
        return self._talk("attach", run)

    def connected(self, words: list[str]) -> Controller:
        """Return a controller on the pipes of another command line that reaches this node."""
        controller = Controller(words)
        self._controllers.append(controller)
        return controller

    def _talk(self, verb: str, run: str) -> Controller:
        return self.connected(self.words(verb, "--run", run))

    def prepared(self, task: protocol.NodeTask) -> Controller:
        """Return a controller whose run is ready on this node."""
        controller = self.open(task.run)
        controller.until(protocol.Hello)
        controller.send(protocol.Prepare(task))
        answer = controller.until(protocol.Ready, protocol.Refused)
        assert isinstance(answer, protocol.Ready), answer
        return controller

    def started(self, task: protocol.NodeTask) -> Controller:
        """Return a controller whose run is released and followed."""
        controller = self.prepared(task)
        controller.send(protocol.Follow({}, None), protocol.Release(0.0))
        return controller

    def up(self, task: protocol.NodeTask, *, count: int = 1) -> Controller:
        """Return a controller of a run whose ranks have written "up" `count` times."""
        controller = self.started(task)
        while sum(output.text.count("up\n") for output in controller.all(protocol.Output)) < count:
            controller.until(protocol.Output)
        return controller

    def ran(self, task: protocol.NodeTask) -> Controller:
        """Return a controller whose run is over."""
        controller = self.started(task)
        controller.until(protocol.Finished)
        return controller

    def refusal(self, task: protocol.NodeTask) -> list[protocol.Reason]:
        """Return the reasons with which this node refuses `task`."""
        controller = self.open(task.run)
        controller.send(protocol.Prepare(task))
        answer = controller.until(protocol.Ready, protocol.Refused)
        assert isinstance(answer, protocol.Refused), answer
        return answer.reasons

    def supervisor(self, controller: Controller) -> int:
        return next(hello.pid for hello in controller.all(protocol.Hello))

    def close(self) -> None:
        """End the processes that a failed test left."""
        for controller in self._controllers:
            controller.kill()
        hellos = [hello for controller in self._controllers for hello in controller.all(protocol.Hello)]
        left = [hello.pid for hello in hellos if hello.phase != "finished" and is_alive(hello.pid)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):  # It may be about to exit on its own.
                os.kill(pid, signal.SIGKILL)
        if left:
            gone(*left)  # While one of them ends, its lock shows a live run.
            self.cleaned()


def task(workdir: Path, *programs: list[str] | str, run: str = "r1", **changes: Any) -> protocol.NodeTask:
    """Return a task whose ranks are `programs`: argument lists, or lines for /bin/sh."""
    ranks = [
        protocol.RankTask(number, number, ["/bin/sh", "-c", program] if isinstance(program, str) else program, {})
        for number, program in enumerate(programs)
    ]
    plain = protocol.NodeTask(
        run=run, host="n1", node_rank=0, workdir=str(workdir), ranks=ranks, env={"PATH": os.environ["PATH"]},
        launcher=[], hold_port=None, devices=[], needs=[], grace_s=60.0, world_size=len(ranks),
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)
