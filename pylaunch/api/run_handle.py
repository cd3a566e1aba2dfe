"""A run as a program holds it: events, logs, state, stop, wait."""

import itertools
import queue
import threading
from collections.abc import Callable, Collection, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError, UsageError
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import base_of
from pylaunch.model.run import RunRecord
from pylaunch.runs.events import LinesWritten, RunBegun, RunEvent, StartEvent
from pylaunch.runs.follow.run_follower import rank_streams
from pylaunch.runs.logs import LogQuery, read_logs
from pylaunch.runs.stacks import StacksReport, stacks
from pylaunch.runs.status import RunReport, report
from pylaunch.runs.stop import StopReport, stop_run
from pylaunch.store import runs
from pylaunch.transport.interrupts import Interrupter

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
            read_logs(self._record, self._query, self._receive, self._interrupter)
            self._put(None)
        except KeyboardInterrupt:
            pass  # The reader has left.
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


Work = Callable[[Callable[[StartEvent], None], Interrupter], Outcome]
"""Follows a run to its end; gets the receiver of events, and the interrupter that stops the run."""


_STARTERS: dict[str, tuple[Interrupter, threading.Thread]] = {}
"""Threads of this process that start a run, which any handle of that run may stop."""


class WaitTimeoutError(PylaunchError, TimeoutError):
    """The run had not ended in time. It continues."""


class RunHandle:
    """One run, with all of its attempts. Dropping the handle, or ending this process, does not end the run.

    A thread of this process is the controller of a run that `start` began, and follows a run that `attach` found. All
    methods may be called from any thread.
    """

    def __init__(self, run: str, work: Work, *, starts: bool = False) -> None:
        """`starts` says that `work` is the controller of the run."""
        self._run = run
        self._interrupter = Interrupter()
        self._changed = threading.Condition()
        self._events: list[StartEvent] = []
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, args=(work,), name=f"pylaunch run {run}", daemon=True)
        if starts:
            _STARTERS[run] = (self._interrupter, self._thread)
        self._thread.start()

    def __repr__(self) -> str:
        """Return the id and the outcome, if there is one."""
        ended = "" if self._outcome is None else f", {self._outcome.status.value}"
        return f"RunHandle({self.id!r}{ended})"

    @property
    def id(self) -> str:
        """The id of the run; `attach` takes it, on this machine or on any other that reaches the nodes.

        A run that loses its turn in the queue is followed by another one, which is that of this handle then.
        """
        return self._run

    def events(self, since: int = 0) -> Iterator[StartEvent]:
        """Yield the events, past ones first and without the first `since`, until the run has ended.

        After the last one, `wait` returns the outcome. Raises the error of following the run, as `wait` does.
        Output of ranks is no event: see `logs`.
        """
        for number in itertools.count(since):
            event = self._event(number)
            if event is None:
                break
            yield event
        self._raise_error()

    def logs(self, *, ranks: Collection[int] | None = None, follow: bool = False) -> Iterator[RankLine]:
        """Yield the lines that ranks of the last attempt wrote, read from the nodes; all ranks if `ranks` is None.

        The lines of one stream are in order. With `follow`, until the run ends. Raises UsageError for ranks that the
        run does not have, ClusterNotReadyError when no node can be reached.
        """
        record = self._record()
        plan = record.plan
        if strange := sorted(set(ranks or ()) - set(range(plan.world_size))):
            raise UsageError(f"ranks {strange}: run {plan.run} has ranks 0 … {plan.world_size - 1}")
        wanted = range(plan.world_size) if ranks is None else sorted(set(ranks))
        nodes = [node for node in plan.nodes if any(rank.rank in wanted for rank in node.ranks)]
        streams = [stream for rank in wanted for stream in rank_streams(plan, rank)]
        return _Reader(record, LogQuery(nodes, streams, follow)).lines()

    def stacks(self, *, ranks: Collection[int] | None = None, call_sites: bool = False) -> StacksReport:
        """Return what each rank of the last attempt does now, or did before a failure stopped it; all ranks if None.

        `call_sites` adds where each collective was called. Raises ClusterNotReadyError when no node can be reached.
        """
        record = self._record()
        wanted = range(record.plan.world_size) if ranks is None else ranks
        return stacks(record, wanted, call_sites=call_sites)

    def status(self) -> RunReport:
        """Return the state now: as recorded if the run is over, else as its nodes report it."""
        return report(self._record())

    def wait(self, timeout_s: float | None = None) -> Outcome:
        """Wait for the end of the run and return its outcome, also of a run that failed or was refused.

        `Outcome.raise_for_failure()` turns a bad one into an error. Raises WaitTimeoutError when `timeout_s` is over,
        and PylaunchError when the run could not be followed to its end.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise WaitTimeoutError(f"run {self.id} has not ended within {timeout_s:g} s; it continues")
        self._raise_error()
        if self._outcome is None:
            raise PylaunchError(f"run {self.id}: following it ended without an outcome")
        return self._outcome

    def stop(self, *, now: bool = False) -> StopReport:
        """Stop all attempts and wait until the nodes report their end; a second call asks again.

        Ranks get SIGTERM, and after the job's grace period SIGKILL; with `now` SIGKILL at once. Hosts that could not
        prove that they are clean are in the report: see `StopReport.raise_if_unclean`.
        """
        record = self._record()
        runs.Recorder(record.plan.run, lambda text: None).ask_to_stop()
        interrupter, thread = _STARTERS.get(base_of(self.id), (self._interrupter, None))
        if thread is not None and not record.has_started:
            interrupter.interrupt(f"stopped by the program that started run {self.id}")
            thread.join()
            record = self._record()
        return stop_run(record, lambda event: None, now=now)

    def _event(self, number: int) -> StartEvent | None:
        """Wait for an event; None if the run ends before it happens."""
        with self._changed:
            self._changed.wait_for(lambda: number < len(self._events) or self._is_over)
            return self._events[number] if number < len(self._events) else None

    @property
    def _is_over(self) -> bool:
        return self._outcome is not None or self._error is not None

    def _record(self) -> RunRecord:
        return runs.read(runs.attempts(self.id)[-1])

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _follow(self, work: Work) -> None:
        outcome: Outcome | None = None
        error: BaseException | None = None
        try:
            outcome = work(self._receive, self._interrupter)
        except BaseException as caught:  # noqa: BLE001 -- raised in the thread that waits
            error = caught
        for run, (_, thread) in tuple(_STARTERS.items()):
            if thread is self._thread:
                del _STARTERS[run]
        with self._changed:
            self._outcome, self._error = outcome, error
            self._changed.notify_all()

    def _receive(self, event: StartEvent) -> None:
        if isinstance(event, LinesWritten):
            return
        if isinstance(event, RunBegun) and event.plan.run != self._run:  # The one before lost its turn in the queue.
            _STARTERS[event.plan.run] = _STARTERS[self._run]
            self._run = event.plan.run
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()
