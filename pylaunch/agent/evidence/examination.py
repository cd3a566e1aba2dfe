"""Views of the ranks of this node, all taken at the same time, while the event loop continues.

Each rank is asked in up to three ways, until one answers: the helper thread in the rank (`in_rank/questions.py`), for
half of the time; then a signal of faulthandler, only to the process that listens and only if it has a handler for it;
and /proc, which always answers. A rank that is stopped is not waited for.
A rank can write anything: an answer of another shape is refused, lists and texts are cut to the bounds of
`protocol.examination`.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from functools import partial
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence

from pylaunch import protocol
from pylaunch.agent.evidence import rank_report, rank_states
from pylaunch.agent.evidence.node_facts import NodeFacts
from pylaunch.agent.in_rank.questions import SIGNUM
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.shared import processes, rank_files
from pylaunch.agent.shared.event_loop import EventLoop, Part
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass, fields, replace
from pylaunch.base.layout import RunDirectory
from pylaunch.protocol import examination as bounds
from pylaunch.protocol.examination import Collective, Frame, ProcessGroup, RankView, ThreadStack
from pylaunch.protocol.fields import read

LOOK_S = 0.02
"""Between two looks at the file that faulthandler writes."""

LARGEST_VIEW = protocol.MAX_LINE - (64 << 10)
PROGRESS = "progress"
"""Question of the hang watch, every few seconds."""

MOST_STACKS = 128 << 10
"""Bytes at the end of one dump of faulthandler that are read."""

NO_HELPER = "Python was started with -I, -E or -S, or with another PYTHONPATH"
NO_THREAD = "the run was started with --no-rank-thread"
OTHER_RANK = "no collectives: the script gave torch another rank or world size"
NOT_PYTHON = "no stacks: not a Python program"


MOST_BYTES = 512 << 10
"""Size of an answer of a rank."""

MODULE = "/in_rank/questions.py"
"""End of the path of the module whose thread answers: its own stack is omitted."""

_HEADER = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):$")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)$')

NUMBERS = ("RANK", "WORLD_SIZE")
"""Variables that a launcher gives to each of its ranks."""


@dataclass(frozen=True)
class RankAnswer:
    """Stacks and collectives that a rank reports."""

    threads: list[ThreadStack]
    groups: list[ProcessGroup]
    collectives: list[Collective]
    note: str = ""
    place: tuple[str, ...] = ()
    """Rank and world size of its default process group; () without one."""

    handles: str = ""
    """Exception that the main thread handles."""


ROWS: Mapping[str, tuple[type[Any], int]] = {
    "frames": (Frame, bounds.MOST_FRAMES),
    "threads": (ThreadStack, bounds.MOST_THREADS),
    "groups": (ProcessGroup, bounds.MOST_GROUPS),
    "collectives": (Collective, bounds.MOST_COLLECTIVES),
}
"""Lists of an answer, whose rows have the fields of a type in their order, and their largest lengths."""


def decoded_answer(line: bytes) -> RankAnswer:
    """Return the answer of a helper thread. Raises ValueError for anything else."""
    body = untrusted_json.parse_object(line, MOST_BYTES)
    parts: dict[str, type[Any] | list[Any]] = {}
    try:
        for name, (cls, most) in ROWS.items():
            names = [each.name for each in fields(cls)]
            body[name] = [dict(zip(names, row)) for row in body[name][:most]]
            parts[cls.__name__] = cls
        parts["Frame"] = [read(Frame, each, {}, bounds.LONGEST_TEXT) for each in body["frames"]]
        return read(RankAnswer, body, parts, bounds.LONGEST_TEXT)
    except (KeyError, TypeError, protocol.WireError) as error:
        raise ValueError(f"expected stacks and collectives: {error}") from None


def is_other_rank(place: Sequence[str], given: Mapping[str, str]) -> bool:
    """Return True if the script made its default group with another rank or world size (`place`) than `given`."""
    return any(value != given[name] for name, value in zip(NUMBERS, place) if name in given)


def stacks_of_faulthandler(text: str) -> RankAnswer:
    """Return the last threads of what faulthandler wrote. It lists the main thread last and does not name threads."""
    threads: list[tuple[str, list[Frame]]] = []
    for line in text.splitlines()[-bounds.MOST_FRAMES :]:
        header, frame = _HEADER.match(line), _FRAME.match(line)
        if header is not None:
            threads.append(((header[2] or "")[: bounds.LONGEST_TEXT], []))
        elif frame is not None and threads and len(threads[-1][1]) < bounds.MOST_STACK_FRAMES:
            number = int(frame[2][:9]) if frame[2].isdigit() else 0
            path, function = (each[-bounds.LONGEST_TEXT :] for each in frame.group(1, 3))
            threads[-1][1].append(Frame(function, path, number))
    found = [
        ThreadStack(name, is_main=False, frames=tuple(frames))
        for name, frames in threads
        if frames and not any(frame.path.endswith(MODULE) for frame in frames)
    ]
    if found:
        found.insert(0, ThreadStack("MainThread", is_main=True, frames=found.pop().frames))
    return RankAnswer(found[: bounds.MOST_THREADS], [], [])


_NOTHING = RankAnswer([], [], [])


@dataclass(frozen=True)
class ExaminedRun:
    """The run whose ranks are examined."""

    loop: EventLoop
    directory: RunDirectory
    streams: Mapping[str, str]
    mask: Mask
    no_helper: str
    """Reason why a Python rank has no helper."""

    given: Callable[[int], Mapping[str, str]]
    """Returns the variables with the place of a rank in the run."""

    pids: Mapping[int, int | None]
    """Process id → rank, or None for the launcher, of each running process: changes while the run lives."""


class RankQuestion:
    """One rank that is asked. `answer` is set when it is done."""

    def __init__(self, pid: int, rank: int, stacks: str, mask: Mask) -> None:
        self.pid = pid
        self.rank = rank
        self.answering: int | None = None
        """Process that listens for the rank."""

        self.answer: RankAnswer | None = None
        self.source = ""
        self.note = ""
        self.connection: socket.socket | None = None
        self._stacks = stacks
        self._mask = mask
        self._received = b""
        self._written_before: int | None = None
        self._has_blocked = False
        """The main thread blocked the signal of faulthandler before it was sent."""

        self._size = 0

    def ask(self, path: str, words: str, run: ExaminedRun) -> None:
        """Send the question to the helper of the rank, if it has one."""
        if rank_states.state(self.pid) in tuple(rank_states.STOPPED):
            self.finish("no stacks: the rank is stopped (SIGSTOP, or a debugger)")
            return
        try:
            connection = local_socket.connect(path, timeout_s=0.0)
        except BlockingIOError:  # Its backlog is full of earlier questions, while C code holds the GIL.
            self.answering = self._listening()
            return
        except OSError:
            is_python = rank_states.is_python(rank_states.worker_of(self.pid))
            self.finish(f"no stacks: {run.no_helper}" if is_python else NOT_PYTHON)
            return
        self.connection = connection
        listening, _ = local_socket.peer(connection)
        if listening not in set(rank_states.family(self.pid)):
            self.finish("no stacks: another process listens at the socket of the rank")
            return
        self.answering = listening
        with contextlib.suppress(OSError):
            connection.send(words.encode() + b"\n")

    def _listening(self) -> int | None:
        """Return the process whose faulthandler writes to the file of this question."""
        stacks, family = os.path.realpath(self._stacks), rank_states.family(self.pid)
        return next((pid for pid in family if stacks in (processes.open_files(pid) or ())), None)

    def receive(self) -> None:
        """Read from the helper."""
        assert self.connection is not None
        try:
            chunk = self.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._received += chunk
        line, end, _ = self._received.partition(b"\n")
        if end:
            try:
                self.answer, self.source = decoded_answer(self._mask.hide(line)), "helper"
            except ValueError as error:
                self.finish(f"no stacks: its answer cannot be read: {error}")
        elif not chunk or len(self._received) > MOST_BYTES:
            self.finish("no stacks: it closed the connection" if not chunk else "no stacks: its answer is too long")

    def signal(self) -> None:
        """Let faulthandler write the stacks of a rank whose helper is silent; the helper may still answer."""
        if self.answering is None or not rank_states.catches(self.answering, SIGNUM):
            return
        self._has_blocked = rank_states.blocks(self.answering, SIGNUM)
        self._written_before = self._size = rank_files.size(self._stacks)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            processes.send(processes.read(self.answering), SIGNUM)

    def look(self) -> None:
        """Take the stacks that faulthandler has written, once it has returned and their file has stopped growing.

        It writes the main thread last, and a busy host may interrupt it for long.
        """
        if self._written_before is None or self.answering is None:
            return
        if rank_states.blocks(self.answering, SIGNUM) and not self._has_blocked:
            return
        size = rank_files.size(self._stacks)
        if size > self._size or size <= self._written_before:
            self._size = size
            return
        try:
            written = rank_files.read_at(self._stacks, max(self._written_before, size - MOST_STACKS), MOST_STACKS)
        except OSError as error:
            self.finish(f"no stacks: {self._stacks}: {error.strerror}")
            return
        self.answer = stacks_of_faulthandler(self._mask.hide(written).decode("utf-8", "replace"))
        self.source = "signal"
        self.note = "no collectives: Python code of the rank does not run (C code holds the GIL)"

    def finish(self, note: str) -> None:
        """Give up asking: /proc answers alone."""
        self.answer, self.note = _NOTHING, note


Deliver = Callable[[List[protocol.RankView], Optional[protocol.HostEvidence]], None]
"""Takes the views of the ranks, and the facts of the node if the request includes them."""


class Examination:
    """One request for views of all ranks, which `deliver` gets with the `facts` of the node."""

    def __init__(
        self, run: ExaminedRun, request: protocol.Examine, facts: protocol.HostEvidence | None, deliver: Deliver
    ) -> None:
        self._run = run
        self._request = request
        self._facts = facts
        self._deliver = deliver
        self._questions: list[RankQuestion] = []
        self._watched: set[RankQuestion] = set()
        self._moved: dict[int, int] = {}
        self._signal_at = 0.0
        self._ends_at = 0.0
        self._has_signalled = False
        self.views: list[RankView] = []

    def begin(self, pids: Mapping[int, int], now: float) -> None:
        """Ask the ranks in `pids` (rank → process id)."""
        self._signal_at, self._ends_at = now + self._request.within_s / 2, now + self._request.within_s
        if self._request.progress:
            self._moved = rank_states.moved_bytes(pids)
        words = PROGRESS if self._request.progress else "sites" if self._request.call_sites else "collectives"
        for rank, pid in sorted(pids.items()):
            question = RankQuestion(pid, rank, self._run.directory.of_rank(rank, rank_report.STACKS), self._run.mask)
            self._questions.append(question)
            question.ask(self._run.directory.of_rank(rank, rank_report.SOCKET), words, self._run)
            if question.answer is None and question.connection is not None:
                self._watched.add(question)
                self._run.loop.watch(question.connection, partial(self._receive, question))
        self._collect()

    @property
    def is_done(self) -> bool:
        return not self._questions

    def next_deadline(self) -> float:
        """Return the time at which `advance` must be called even if nothing happens."""
        if self.is_done:
            return time.monotonic()
        if not self._has_signalled:
            return self._signal_at
        return min(self._ends_at, time.monotonic() + LOOK_S)

    def advance(self, now: float) -> None:
        """Ask in the next way where it is time."""
        if not self._has_signalled and now >= self._signal_at:
            self._has_signalled = True
            for question in self._questions:
                question.signal()
        elif self._has_signalled:
            for question in self._questions:
                question.look()
        if now >= self._ends_at:
            self.end()
        self._collect()

    def end(self) -> None:
        """Take the views that are missing from /proc."""
        for question in self._questions:
            question.finish(f"no stacks: no answer in {self._request.within_s:g} s")
        self._collect()

    def deliver(self) -> None:
        """Answer the request with what has arrived."""
        self.end()
        self._deliver(self.views, self._facts)

    def _receive(self, question: RankQuestion) -> None:
        question.receive()
        self._collect()

    def _collect(self) -> None:
        for question in [each for each in self._questions if each.answer is not None]:
            self._questions.remove(question)
            if question in self._watched and question.connection is not None:
                self._run.loop.forget(question.connection)
            if question.connection is not None:
                question.connection.close()
            self.views.append(fitting(self._view(question)))

    def _view(self, question: RankQuestion) -> RankView:
        answer = question.answer or _NOTHING
        seen = rank_states.view(question.rank, question.pid, question.answering)
        is_other = is_other_rank(answer.place, self._run.given(question.rank))
        if is_other:
            answer = replace(answer, groups=[], collectives=[], note=OTHER_RANK)
        return replace(
            seen, moved=self._moved.get(question.rank),
            silent_s=rank_states.silent_s(question.rank, self._run.streams, seen.time),
            step=rank_report.last_step(self._run.directory, question.rank),
            source=question.source, note="; ".join(filter(None, (question.note, answer.note))),
            threads=tuple(answer.threads), groups=tuple(answer.groups), collectives=tuple(answer.collectives),
            handles=answer.handles, is_other_rank=is_other,
            serial=self._request.serial,
        )  # fmt: skip


def fitting(view: RankView) -> RankView:
    """Return `view` with as many of its last collectives as fit in a message, and without stacks if they do not."""
    while len(protocol.encode(view)) > LARGEST_VIEW:
        if view.collectives:
            kept = view.collectives[(len(view.collectives) + 1) // 2 :]
            view = replace(view, collectives=kept)
        else:
            view = replace(view, threads=(), groups=(), note="its answer is too long")
    return view


MOST_REQUESTS = 16
"""Requests at a time: of further ones, the oldest gets what has arrived."""


class Examinations(Part):
    """Requests that are not answered yet."""

    def __init__(self, run: ExaminedRun, facts: NodeFacts) -> None:
        self._run = run
        self._facts = facts
        self._under_way: list[Examination] = []

    def request(self, request: protocol.Examine, deliver: Deliver, now: float) -> None:
        """Examine all ranks that run; `deliver` gets their views, perhaps before this returns."""
        if len(self._under_way) >= MOST_REQUESTS:
            self._answer(self._under_way[0])
        facts = self._facts.read(self._run.pids, request.serial) if request.node else None
        examination = Examination(self._run, request, facts, deliver)
        self._under_way.append(examination)
        examination.begin({rank: pid for pid, rank in self._run.pids.items() if rank is not None}, now)
        self._deliver()

    def deadline(self) -> float | None:
        """Return the time at which a request must be continued."""
        return min((each.next_deadline() for each in self._under_way), default=None)

    def tick(self, now: float) -> None:
        """Continue, and answer the requests that are over."""
        for each in self._under_way:
            each.advance(now)
        self._deliver()

    def end(self) -> Iterable[str]:
        """Answer all of them now."""
        for each in list(self._under_way):
            self._answer(each)
        return ()

    def _deliver(self) -> None:
        for over in [each for each in self._under_way if each.is_done]:
            self._answer(over)

    def _answer(self, examination: Examination) -> None:
        self._under_way.remove(examination)
        examination.deliver()
