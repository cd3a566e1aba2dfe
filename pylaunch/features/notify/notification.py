"""Notifications of a run, in one line for a person and as fields for a program. Pure."""

from collections.abc import Callable
from enum import Enum

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.model.secret import masked
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.moments import in_utc
from pylaunch.model.text.sanitise import visible_line
from pylaunch.runs.attach import Attached, AttachEvent
from pylaunch.runs.attempts import Restarting
from pylaunch.runs.start_events import AttemptEnded, AttemptStarted, RanksReleased, StartEvent
from pylaunch.terminal.doors import RunEnding

LONGEST = 1000
"""Characters of a text; Discord refuses messages of more than 2000."""


class Moment(Enum):
    """A moment of a run that people are notified of."""

    START = "start"
    RESTART = "restart"
    HANG = "hang"
    ADVANCING = "advancing"
    """Ranks advance again after a hang."""

    END = "end"


@dataclass(frozen=True)
class Notification:
    """One notification; its texts are masked, on one line and bounded."""

    moment: Moment
    run: str
    """The attempt."""

    status: str
    """ "running", or how the run ended: "done", "failed", "stopped", "refused"."""

    reason: str
    text: str
    time: float
    hosts: str = ""
    """Folded: "gpu[01-02]"."""

    ranks: int = 0
    command: str = ""
    files: tuple[str, ...] = ()

    def as_data(self) -> dict[str, object]:
        """Return the fields as JSON; `text` is what Slack, Mattermost and Teams show, `content` what Discord shows."""
        return {
            "event": self.moment.value,
            "run": self.run,
            "status": self.status,
            "reason": self.reason,
            "hosts": self.hosts,
            "ranks": self.ranks,
            "command": self.command,
            "files": list(self.files),
            "time": in_utc(self.time).isoformat(timespec="milliseconds"),
            "text": self.text,
            "content": self.text,
        }


class Narration:
    """Makes notifications of the events of one run; `hide` masks secrets."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        self._plan: RunPlan | None = None
        self._last: Outcome | None = None
        """Outcome of the attempt before."""

        self._is_started = False
        self._subject = ""
        """Name of a job of several roles that has ended."""

    def mask_with(self, hide: Callable[[str], str]) -> None:
        """Mask with `hide` from now on."""
        self._hide = hide

    def of_event(self, event: StartEvent | AttachEvent, now: float) -> Notification | None:
        """Return the notification of `event`; None without one."""
        match event:
            case AttemptStarted(plan):
                self._plan = plan
            case Attached(record):
                self._plan = record.plan
            case RanksReleased(plan, start) if not self._is_started and plan.job.part is None:
                self._is_started = True
                ranks = "1 rank" if plan.world_size == 1 else f"{plan.world_size} ranks"
                seconds = sum(start.phases.values())
                return self._made(Moment.START, now, f"{ranks} on {fold(plan.cluster.names)}, in {seconds:.1f} s")
            case AttemptEnded(outcome=outcome):
                self._last = outcome
            case Restarting(plan, why):
                self._plan = plan
                reasons = [plan.attempt_words, "" if self._last is None else self._last.reason, why]
                return self._made(Moment.RESTART, now, "; ".join(filter(None, reasons)))
            case Event(kind=EventKind.HANG, text=text):
                return self._made(Moment.HANG, now, text)
            case Event(kind=EventKind.ADVANCING, text=text):
                return self._made(Moment.ADVANCING, now, text)
            case _:
                pass
        return None

    def of_end(self, ending: RunEnding, now: float) -> Notification | None:
        """Return the notification of the end of the run, with the files about it.

        None for a part of a job of several roles that has not failed: the job ends with one of its own.
        """
        part = None if self._plan is None else self._plan.job.part
        if part is not None and (ending.outcome is None or ending.outcome.status is not Status.FAILED):
            return None
        outcome = ending.outcome
        if outcome is not None:
            return self._made(Moment.END, now, outcome.reason, outcome.status.value, ending)
        reason = "the start ended with an error" if ending.error is None else ending.error.message
        return self._made(Moment.END, now, reason, "refused", ending)

    def of_job(self, name: str, ending: RunEnding, now: float) -> Notification | None:
        """Return the notification of the end of a job of several roles."""
        self._subject = f"job {name} ({ending.run})"
        return self.of_end(ending, now)

    def _made(
        self, moment: Moment, now: float, reason: str, status: str = "running", ending: RunEnding | None = None
    ) -> Notification:
        plan = self._plan
        run = plan.run if plan is not None else "" if ending is None else ending.run
        files = () if ending is None else tuple(self._line(str(path)) for path in ending.files)
        shown = self._line(reason)
        part = None if plan is None else plan.job.part
        subject = self._subject or f"run {run}" + (f", {part.name} of job {part.job_name}" if part else "")
        what = {Moment.START: "started: ", Moment.END: f"{status}: "}.get(moment, "")
        return Notification(
            moment, run, status, shown, self._line(f"pylaunch {subject}: {what}{' · '.join((shown, *files))}"), now,
            hosts="" if plan is None else self._line(fold(plan.cluster.names)),
            ranks=0 if plan is None else plan.world_size,
            command="" if plan is None else self._line(quoted(masked(plan.job.command))),
            files=files,
        )  # fmt: skip

    def _line(self, text: str) -> str:
        """Return `text` masked, then on one line, then cut."""
        line = visible_line(self._hide(text))
        return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
