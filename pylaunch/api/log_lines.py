"""Output of ranks as records, read from the nodes of a run."""

import queue
import threading
from collections.abc import Collection, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError, UsageError
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.events import LinesWritten, RunEvent
from pylaunch.runs.follow.run_follower import rank_streams
from pylaunch.runs.logs import LogQuery, follow_logs

QUEUED = 1000
"""Messages that wait for the reader before reading from the nodes pauses."""

PUT_S = 0.5
"""Interval at which a full queue checks whether the reader has gone."""


@dataclass(frozen=True)
class RankLine:
    """One line of a rank, without its line end."""

    time: float
    """Seconds since the epoch on this machine's clock, when the node saw the line."""

    host: str
    rank: int
    stream: str
    """`out` or `err`."""

    text: str


def read_lines(record: RunRecord, ranks: Collection[int] | None, *, follow: bool) -> Iterator[RankLine]:
    """Yield lines as nodes send them; the lines of one stream are in order.

    Raises UsageError for ranks that the run does not have, ClusterNotReadyError when no node can be reached.
    """
    plan = record.plan
    strange = sorted(set(ranks or ()) - set(range(plan.world_size)))
    if strange:
        raise UsageError(f"ranks {strange}: run {plan.run} has ranks 0 … {plan.world_size - 1}")
    wanted = range(plan.world_size) if ranks is None else sorted(set(ranks))
    nodes = [node for node in plan.nodes if any(rank.rank in wanted for rank in node.ranks)]
    streams = [stream for rank in wanted for stream in rank_streams(plan, rank)]
    return _Reader(record, LogQuery(nodes, streams, follow)).lines()


class _Reader:
    """A thread that reads the nodes, and the queue between it and the caller."""

    def __init__(self, record: RunRecord, query: LogQuery) -> None:
        self._record = record
        self._query = query
        self._interrupter = Interrupter()
        self._has_left = threading.Event()
        self._queue: queue.Queue[LinesWritten | PylaunchError | None] = queue.Queue(QUEUED)

    def lines(self) -> Iterator[RankLine]:
        """Yield until the reading ends. Closing the generator ends the reading."""
        thread = threading.Thread(target=self._read, name=f"pylaunch logs {self._record.plan.run}", daemon=True)
        thread.start()
        try:
            while (found := self._queue.get()) is not None:
                if isinstance(found, PylaunchError):
                    raise found
                rank, _, stream = found.stream.partition(".")
                for text in found.text.splitlines():
                    yield RankLine(found.time, found.host, int(rank), stream, text)
        finally:
            self._has_left.set()
            self._interrupter.interrupt("the reader has left")
            thread.join()

    def _read(self) -> None:
        try:
            follow_logs(self._record, self._query, self._receive, self._interrupter)
            self._put(None)
        except PylaunchError as error:
            self._put(error)

    def _receive(self, event: RunEvent) -> None:
        if isinstance(event, LinesWritten):
            self._put(event)

    def _put(self, found: LinesWritten | PylaunchError | None) -> None:
        while not self._has_left.is_set():
            try:
                self._queue.put(found, timeout=PUT_S)
                return
            except queue.Full:
                continue
