"""Read the logs of a run, or copy all of them to this machine."""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.confine import LAUNCHER_STREAMS
from pylaunch.runs.connect.interruptible import Interrupter, InterruptSource
from pylaunch.runs.existing.logs import LogQuery, read_logs
from pylaunch.runs.follow.run_events import LinesWritten, Notice, RunEvent
from pylaunch.runs.follow.run_follower import LAST_S, rank_streams


@dataclass(frozen=True)
class CollectedLogs:
    """Logs that were copied to a directory."""

    directory: Path
    files: frozenset[Path]
    size: int
    """Bytes."""


def follow_logs(
    record: RunRecord,
    query: LogQuery,
    emit: Callable[[RunEvent], None],
    interrupts: InterruptSource | None = None,
    *,
    only_with: str | None = None,
) -> None:
    """Emit the output of the ranks that `query` names, with `only_with` only lines that contain this text.

    An interrupt ends the reading, not the run. Raises ClusterNotReadyError when no node can be reached.
    """
    source = Interrupter() if interrupts is None else interrupts
    read_logs(record, emit if only_with is None else containing(only_with, emit), query, source)


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


def containing(wanted: str, emit: Callable[[RunEvent], None]) -> Callable[[RunEvent], None]:
    """Return an emitter that drops lines of output without the text `wanted`."""

    def emit_containing(event: RunEvent) -> None:
        if isinstance(event, LinesWritten):
            lines = [line for line in event.text.removesuffix("\n").split("\n") if wanted in line]
            if lines:
                emit(LinesWritten(event.host, event.stream, "\n".join(lines) + "\n", event.time))
        else:
            emit(event)

    return emit_containing


def collect_logs(
    record: RunRecord, directory: Path, emit: Callable[[Notice], None], interrupts: InterruptSource | None = None
) -> CollectedLogs:
    """Copy all output that ranks and launchers wrote until now to `directory`/HOST/RANK.out, .err and launcher.*.

    Raises UsageError where a file cannot be written.
    """
    collector = Collector(directory, emit)
    streams = [*rank_streams(record.plan), *LAUNCHER_STREAMS]
    source = Interrupter() if interrupts is None else interrupts
    read_logs(record, collector.take, LogQuery(record.plan.nodes, streams), source)
    return CollectedLogs(directory, frozenset(collector.files), collector.size)


class Collector:
    """Writes output to files, and emits notices: nodes that cannot be reached, output that is gone."""

    def __init__(self, directory: Path, emit: Callable[[Notice], None]) -> None:
        self._directory = directory
        self._emit = emit
        self.size = 0
        self.files: set[Path] = set()

    def take(self, event: RunEvent) -> None:
        """Write or emit `event`. Raises UsageError where a file cannot be written."""
        if isinstance(event, LinesWritten):
            self._write(event)
        elif isinstance(event, Notice):
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
