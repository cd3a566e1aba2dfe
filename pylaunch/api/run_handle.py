"""A run as a program holds it: events, logs, state, stop, wait."""

import itertools
import threading
from collections.abc import Callable, Collection, Iterator

from pylaunch.api.log_lines import RankLine, read_lines
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.events import LinesWritten, RunEnded, StartEvent
from pylaunch.runs.stacks import StacksReport, stacks
from pylaunch.runs.status import RunReport, report
from pylaunch.runs.stop import StopReport, stop_run
from pylaunch.store import runs

Work = Callable[[Callable[[StartEvent], None], Interrupter], Outcome]
"""Follows a run to its end; gets the receiver of events, and the interrupter that stops the run."""


class WaitTimeoutError(PylaunchError, TimeoutError):
    """The run had not ended in time. It continues."""


@dataclass(frozen=True)
class NumberedEvent:
    """An event and its number: `events(since=number + 1)` continues after it."""

    number: int
    event: StartEvent


class RunHandle:
    """One run, with all of its attempts. Dropping the handle, or ending this process, does not end the run.

    A thread of this process is the controller of a run that `start` began, and follows a run that `attach` found. All
    methods may be called from any thread.
    """

    def __init__(self, run: str, work: Work) -> None:
        self._run = run
        self._interrupter = Interrupter()
        self._changed = threading.Condition()
        self._events: list[StartEvent] = []
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, args=(work,), name=f"pylaunch run {run}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        """Return the id and the outcome, if there is one."""
        ended = "" if self._outcome is None else f", {self._outcome.status.value}"
        return f"RunHandle({self.id!r}{ended})"

    @property
    def id(self) -> str:
        """The id of the run; `attach` takes it, on this machine or on any other that reaches the nodes."""
        return self._run

    def events(self, since: int = 0) -> Iterator[NumberedEvent]:
        """Yield the events from number `since` on, past ones first, until the run has ended.

        The last one is `RunEnded`. Without it, following the run failed: the error of that is raised, as by `wait`.
        Output of ranks is no event: see `logs`.
        """
        for number in itertools.count(since):
            event = self._event(number)
            if event is None:
                break
            yield NumberedEvent(number, event)
        self._raise_error()

    def logs(self, *, ranks: Collection[int] | None = None, follow: bool = False) -> Iterator[RankLine]:
        """Yield the lines that ranks of the last attempt wrote, read from the nodes; all ranks if `ranks` is None.

        With `follow`, until the run ends. Raises ClusterNotReadyError when no node can be reached.
        """
        return read_lines(self._record(), ranks, follow=follow)

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
        if self._thread.is_alive() and not record.has_started:
            self._interrupter.interrupt(f"stopped by the program that started run {self.id}")
            self._thread.join()
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
        with self._changed:
            self._outcome, self._error = outcome, error
            self._changed.notify_all()

    def _receive(self, event: StartEvent) -> None:
        if isinstance(event, LinesWritten):
            return
        with self._changed:
            if isinstance(event, RunEnded):
                self._outcome = event.outcome
            self._events.append(event)
            self._changed.notify_all()
