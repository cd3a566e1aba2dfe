"""Read the logs of a run from its nodes, or copy all of them to this machine."""

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.plan import NodePlan
from pylaunch.model.run import Event, RunRecord
from pylaunch.runs.connect.agent_link import AgentLink
from pylaunch.runs.connect.bounds import LAUNCHER_STREAMS, ForeignMessage, overstepped
from pylaunch.runs.connect.fleet import ConnectionEnded, Fleet, Interrupted, raise_if_none
from pylaunch.runs.connect.interruptible import Interrupter, InterruptSource, on_fleet
from pylaunch.runs.events import LIVE_LAG, Emitter, LinesWritten, RunEvent, notice, skipped_line
from pylaunch.runs.follow.run_follower import LAST_S, rank_streams

LOOK_S = 1.0
LOOKS = 20
"""Looks without a message, after which a node counts as silent: its agent may be stopped, and has no heartbeat here."""


@dataclass(frozen=True)
class SilentNode:
    """A node whose logs are read has sent nothing for a while."""

    host: str
    seconds: float


@dataclass(frozen=True)
class LogQuery:
    """Logs to read, and from where."""

    nodes: Sequence[NodePlan]
    streams: list[str]
    follow: bool = False
    """Follow the logs until the run ends."""

    tail: int | None = None
    """Begin with the last lines of each stream, this many; None is with the first line."""


def read_logs(record: RunRecord, emit: Emitter, query: LogQuery, source: InterruptSource) -> None:
    """Relay the output written until now, or with `follow` until the run ends. An interrupt ends only the query."""

    async def work(fleet: Fleet) -> None:
        names = [node.host.name for node in query.nodes]
        failures = await fleet.unless_interrupted(fleet.connect(names, "attach"))
        raise_if_none(record, {name: str(error) for name, error in failures.items()}, of=names)
        for name, error in failures.items():
            emit(notice(f"{name}: {error}"))
        await fleet.send({name: _wanted(query, link) for name, link in fleet.links.items()})
        await first_of(relay(fleet, emit, query), *([] if query.follow else [report_silence(fleet)]))

    on_fleet(record.plan, record.agent, work, source=source)


async def first_of(*works: Coroutine[None, None, None]) -> None:
    """Run `works` until the first of them ends, which ends all. Raises what that one raises."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def relay(fleet: Fleet, emit: Emitter, query: LogQuery) -> None:
    """Relay output until every node has sent what the query wants, or is silent; or until an interrupt."""
    waiting = set(fleet.links)
    while waiting:
        host, message = await fleet.inbox.hear()
        match message:
            case protocol.Output():
                emit(LinesWritten(host, message.stream, message.text, fleet.our_time(host, message.time)))
            case protocol.Skipped():
                emit(notice(skipped_line(host, message)))
            case ForeignMessage():
                emit(notice(overstepped(host, message)))
            case protocol.Finished() | protocol.Failed() | ConnectionEnded():
                waiting.discard(host)
            case protocol.CaughtUp() if not query.follow:
                waiting.discard(host)
            case SilentNode() if message.host in waiting:
                waiting.discard(message.host)
                emit(notice(f"{message.host}: silent for {message.seconds:g} s; its logs may continue"))
            case Interrupted():
                return


async def report_silence(fleet: Fleet, *, look_s: float = LOOK_S, looks: int = LOOKS) -> None:
    """Post SilentNode for each node that sends nothing between so many looks; time without looks does not count."""
    quiet: dict[str, tuple[float, int]] = {}
    while True:
        await asyncio.sleep(look_s)
        for host, link in fleet.links.items():
            heard_at, count = quiet.get(host, (0.0, 0))
            count = count + 1 if link.is_awaited and link.heard_at == heard_at else 0
            quiet[host] = (link.heard_at, count)
            if count == looks:
                fleet.post(SilentNode(host, look_s * looks))


def _wanted(query: LogQuery, link: AgentLink) -> protocol.Follow:
    return protocol.Follow(
        {},
        query.streams,
        tail=query.tail,
        lag=LIVE_LAG if query.follow else None,
    )


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
) -> None:
    """Emit the output of the ranks that `query` names.

    An interrupt ends the reading, not the run. Raises ClusterNotReadyError when no node can be reached.
    """
    source = Interrupter() if interrupts is None else interrupts
    read_logs(record, emit, query, source)


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
    source = Interrupter() if interrupts is None else interrupts
    read_logs(record, collector.take, LogQuery(record.plan.nodes, streams), source)
    return CollectedLogs(directory, frozenset(collector.files), collector.size)


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
