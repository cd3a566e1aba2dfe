"""Record of a run: its plan, events and outcome."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan


class EventKind(Enum):
    """Kind of an event of a run."""

    WAITING = "waiting"
    """The start waits in the queue."""

    LEFTOVER_ENDED = "leftover_ended"
    """A process that no live run owns was ended, before the start."""

    TURN_LOST = "turn_lost"
    """A run that did not queue took the devices first. The start queues again, as a run with a new id."""

    RESTARTING = "restarting"
    """Another attempt follows; the text says why."""

    NO_RESTART = "no_restart"
    """No attempt follows one that failed."""

    NOTICE = "notice"
    """A line of progress, or a remark, for a person. No record has it."""

    PREPARED = "prepared"
    REFUSED = "refused"
    RELEASED = "released"
    RANK_STARTED = "rank_started"
    RANK_ENDED = "rank_ended"
    CONTACT_LOST = "contact_lost"
    CONTACT_REGAINED = "contact_regained"
    HANG = "hang"
    """The ranks do not advance; the text names the cause as far as the evidence does."""

    ADVANCING = "advancing"
    """Ranks advance again after a hang was reported."""

    STOP_ASKED = "stop_asked"
    ATTACHED = "attached"
    ENDED = "ended"


@dataclass(frozen=True)
class Event:
    """Event of a run. Times are seconds since the epoch on the controller's clock."""

    time: float
    kind: EventKind
    host: str | None = None
    rank: int | None = None
    text: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Measured durations by phase."""

    lines: tuple[str, ...] = ()
    """Evidence, one line each."""

    hint: str = ""


@dataclass(frozen=True)
class RunRecord:
    """Run as read from its files."""

    plan: RunPlan
    agent: str
    """Version of the agent that runs it on its nodes."""

    created_at: float
    events: tuple[Event, ...]
    outcome: Outcome | None
    """None while it runs, or when nobody was there to see it end."""

    is_foreign: bool = False
    """The plan was read from nodes: it can be shown, followed and stopped. Nothing in it is run."""

    started_by: str = ""
    """User and machine that started it, as "alice on laptop"; empty for a run that is known from its nodes."""

    @property
    def has_started(self) -> bool:
        """Its ranks were released, as far as this record knows: who attaches finds a run that was."""
        return any(event.kind in (EventKind.RELEASED, EventKind.ATTACHED) for event in self.events)

    @property
    def began(self) -> float | None:
        """Time at which a run began whose ranks were released; None without a release."""
        return self.created_at if self.has_started else None

    @property
    def last_hang(self) -> Event | None:
        """Finding about ranks that did not advance, unless they advanced again or it ended the run."""
        reports = [event for event in self.events if event.kind in (EventKind.HANG, EventKind.ADVANCING)]
        is_over = self.outcome is not None and self.outcome.hang is not None
        return reports[-1] if reports and reports[-1].kind is EventKind.HANG and not is_over else None

    def ran_s(self, outcome: Outcome) -> float | None:
        """Seconds from the release of the ranks to the last end; None where this record does not know the release."""
        return ran_s(self.events, outcome)


@dataclass(frozen=True)
class PreviousAttempt:
    """The attempt before another one of the same run, and why it ended."""

    run: str
    reason: str


def ran_s(events: Iterable[Event], outcome: Outcome) -> float | None:
    """Return the seconds from the release of the ranks, one of `events`, to the last end; None without a release."""
    released = [event.time for event in events if event.kind in (EventKind.RELEASED, EventKind.RANK_STARTED)]
    last = max((end.time for end in outcome.ends), default=outcome.ended_at)
    return max(0.0, last - min(released)) if released else None


Notes = Callable[[str], None]
"""Receives one complete line: a damaged record, a full disk, a host that left out something."""


def ignore(_: str) -> None:
    """Drop the note."""
