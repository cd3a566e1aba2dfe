"""Read the logs of a run from its nodes, or copy all of them to this machine."""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import UsageError
from pylaunch.model.hostset import fold
from pylaunch.model.job import OnHang
from pylaunch.model.plan import NodePlan
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs.connect.bounds import LAUNCHER_STREAMS
from pylaunch.runs.connect.fleet import Fleet, on_fleet, raise_if_none
from pylaunch.runs.events import LIVE_LAG, Emitter, LinesWritten, RunEvent, contact_line, notice
from pylaunch.runs.follow.run_follower import LAST_S, RunFollower, rank_streams
from pylaunch.transport.interrupts import Interrupter, InterruptSource


@dataclass(frozen=True)
class LogQuery:
    """Logs to read, and from where."""

    nodes: Sequence[NodePlan]
    streams: list[str]
    follow: bool = False
    """Follow the logs until the run ends."""

    tail: int | None = None
    """Number of last lines of each stream to begin with; None begins with the first line."""


def read_logs(record: RunRecord, query: LogQuery, emit: Emitter, interrupts: InterruptSource | None = None) -> None:
    """Emit the output written until now, or with `follow` until the run ends.

    Raises ClusterNotReadyError when no node can be reached. An interrupt ends the following; before the end of what was
    written, it raises KeyboardInterrupt.
    """

    async def work(fleet: Fleet) -> None:
        try:
            await fleet.unless_interrupted(_read(record, query, fleet, emit))
        except KeyboardInterrupt:
            if not query.follow:
                raise

    on_fleet(record.plan, record.agent, work, source=Interrupter() if interrupts is None else interrupts)


async def _read(record: RunRecord, query: LogQuery, fleet: Fleet, emit: Emitter) -> None:
    names = [node.host.name for node in query.nodes]
    failures = await fleet.connect(names, "attach")
    raise_if_none(record, {name: str(error) for name, error in failures.items()}, of=names)
    job = replace(record.plan.job, hang_after=None, on_hang=OnHang.OBSERVE)
    plan = replace(record.plan, job=job, nodes=tuple(query.nodes))
    follower = RunFollower(plan, fleet, partial(_show, emit), streams=query.streams, leads=False)
    follower.relay.tail = query.tail
    follower.relay.lag = LIVE_LAG if query.follow else None
    to_end = query.follow and record.outcome is None
    for name, error in failures.items():
        if to_end and not error.is_final:
            follower.not_reached(name, str(error), host_answers=error.host_answers)
        else:
            emit(notice(f"{name}: {error}"))
            follower.nothing_there(name)
            follower.relay.behind.discard(name)
    await follower.read(to_end=to_end)
    if unread := follower.relay.behind | (follower.live if to_end else set()):
        emit(notice(f"{fold(unread)}: no connection; the logs may continue"))


def _show(emit: Emitter, event: RunEvent) -> None:
    """Emit output, and what is said about it: not what happens to the run."""
    if isinstance(event, LinesWritten) or (isinstance(event, Event) and event.kind is EventKind.NOTICE):
        emit(event)
    elif isinstance(event, Event) and event.kind in (EventKind.CONTACT_LOST, EventKind.CONTACT_REGAINED):
        emit(notice(contact_line(event)))


@dataclass(frozen=True)
class CollectedLogs:
    """Logs that were copied to a directory."""

    files: frozenset[Path]
    size: int
    """Bytes."""


def read_each(
    readers: Sequence[Callable[[InterruptSource], None]], interrupts: InterruptSource, *, at_once: bool
) -> None:
    """Call `readers` in turn, or all `at_once`, in threads. An interrupt ends all. Raises what a reader raises."""
    sources = [Interrupter() for _ in readers]

    def to_all(reason: str) -> None:
        for each in sources:
            each.interrupt(reason)

    with interrupts(to_all, LAST_S), ThreadPoolExecutor(len(readers) if at_once else 1, "logs") as pool:
        reading = [pool.submit(read, source) for read, source in zip(readers, sources, strict=True)]
        try:
            for each in reading:
                each.result()
        except BaseException:
            for each in reading:
                each.cancel()
            to_all("another log cannot be read")
            raise


def collect_logs(
    record: RunRecord, directory: Path, emit: Callable[[Event], None], interrupts: InterruptSource | None = None
) -> CollectedLogs:
    """Copy all output that ranks and launchers wrote until now to `directory`/HOST/RANK.out, .err and launcher.*.

    Raises UsageError where a file cannot be written.
    """
    collector = Collector(directory, emit)
    streams = [*rank_streams(record.plan), *LAUNCHER_STREAMS]
    read_logs(record, LogQuery(record.plan.nodes, streams), collector.take, interrupts)
    return CollectedLogs(frozenset(collector.files), collector.size)


class Collector:
    """Writes output to files, and emits notices: nodes that cannot be reached, output that is gone."""

    def __init__(self, directory: Path, emit: Callable[[Event], None]) -> None:
        self._directory = directory
        self._emit = emit
        self.size = 0
        self.files: set[Path] = set()

    def take(self, event: RunEvent) -> None:
        """Write or emit `event`. Raises UsageError where a file cannot be written."""
        if isinstance(event, LinesWritten):
            self._write(event)
        elif isinstance(event, Event):
            self._emit(event)

    def _write(self, output: LinesWritten) -> None:
        path = self._directory / output.host / output.stream
        content = output.text.encode("utf-8", "surrogateescape")
        try:
            with _opened(self._directory, output.host, output.stream, is_new=path not in self.files) as file:
                file.write(content)
        except OSError as error:
            raise UsageError(f"--save-logs {self._directory}: {path} cannot be written: {error.strerror}") from None
        self.files.add(path)
        self.size += len(content)


def _opened(directory: Path, host: str, stream: str, *, is_new: bool) -> IO[bytes]:
    """Open `directory`/`host`/`stream` for appending, empty if it `is_new`.

    Raises OSError where either name is not a plain one, or where the file is a link or not regular: output comes from
    nodes and stays in `directory`.
    """
    for name in (host, stream):
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise OSError(errno.EINVAL, f"{name!r} is not a file name")
    (directory / host).mkdir(parents=True, exist_ok=True)
    within = os.open(directory / host, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(stream, flags, 0o666, dir_fd=within)
    finally:
        os.close(within)
    file = os.fdopen(descriptor, "ab")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file")
    if is_new:
        os.ftruncate(descriptor, 0)
    return file
