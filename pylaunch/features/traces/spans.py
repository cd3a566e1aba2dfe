"""Spans of a start: its phases, the nodes that prepare, and the time to the first line of code. Pure."""

from collections.abc import Iterator, Mapping

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind, first_line_timing
from pylaunch.runs.attach import AttachEvent
from pylaunch.runs.prepare.session import Start
from pylaunch.runs.start_events import AttemptEnded, AttemptRefused, AttemptStarted, RanksReleased, StartEvent

LAST_BEFORE_JUDGEMENT = "prepare"
"""After this phase, the checks are judged and a job of several roles waits for its others, which no phase measures."""


@dataclass(frozen=True)
class TimedSpan:
    """One span; times are seconds since the epoch on the controller's clock."""

    name: str
    begin: float
    end: float
    attributes: Mapping[str, str | float] = field(default_factory=dict)
    inner: "tuple[TimedSpan, ...]" = ()
    has_failed: bool = False


class StartTrace:
    """Makes the trace of each attempt of a run, when all ranks have reported their first line or the attempt ends."""

    def __init__(self) -> None:
        self._plan: RunPlan | None = None
        self._begin = 0.0
        self._released: tuple[Start, float] | None = None
        self._events: list[Event] = []

    def of_event(self, event: StartEvent | AttachEvent, now: float) -> TimedSpan | None:
        """Return the trace of an attempt if `event` completes it."""
        match event:
            case AttemptStarted(plan):
                self._plan, self._begin, self._released, self._events = plan, now, None, []
            case RanksReleased(_, start):
                self._released = (start, now)
            case Event(kind=EventKind.PREPARED | EventKind.RANK_STARTED | EventKind.FIRST_LINE) if self._plan:
                self._events.append(event)
                # The last event of all ranks completes the timing, which reads all of them.
                if len(self._events) >= len(self._plan.nodes) + 2 * self._plan.world_size:
                    return self.completed(now)
            case AttemptRefused() | AttemptEnded():
                return self.completed(now)
            case _:
                pass
        return None

    def completed(self, now: float) -> TimedSpan | None:
        """Return the trace of the attempt as far as it got; None without an attempt, or again."""
        plan, self._plan = self._plan, None
        if plan is None:
            return None
        about: dict[str, str | float] = {"pylaunch.run": plan.run, "pylaunch.ranks": plan.world_size}
        if self._released is None:
            return TimedSpan("start", self._begin, now, about, tuple(self._ready(self._begin)), has_failed=True)
        start, released = self._released
        inner = [*self._phases(start, released)]
        timing, end = first_line_timing(self._events, plan.world_size), released
        if timing is not None:
            end = max(released, min(now, start.instant + timing.last))
            inner.append(TimedSpan("first line", start.instant, end, {"pylaunch.skew_seconds": timing.skew}))
        return TimedSpan("start", self._begin, end, {**about, "pylaunch.skew_seconds": start.skew}, tuple(inner))

    def _phases(self, start: Start, released: float) -> Iterator[TimedSpan]:
        at, rest = start.begun, sum(start.phases.values())
        for name, seconds in start.phases.items():
            is_prepare = name == LAST_BEFORE_JUDGEMENT
            yield TimedSpan(name, at, at + seconds, inner=tuple(self._ready(at)) if is_prepare else ())
            rest -= seconds
            at = released - rest if is_prepare else at + seconds

    def _ready(self, begin: float) -> Iterator[TimedSpan]:
        """Yield a span of each node that became ready; the time is the controller's."""
        for event in self._events:
            if event.kind is EventKind.PREPARED and event.host is not None:
                yield TimedSpan("ready", begin, max(begin, event.time), {"pylaunch.node": event.host})
