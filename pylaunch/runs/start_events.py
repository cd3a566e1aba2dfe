"""Events of a start: typed values for a view, a log or another program."""

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.runs.attempts import NoRestart, Restarting
from pylaunch.runs.follow.run_events import RunEvent
from pylaunch.runs.prepare.session import Start


@dataclass(frozen=True)
class LeftoverEnded:
    """A process that no live run owns was ended, before the start."""

    host: str
    process: str


@dataclass(frozen=True)
class RunBegun:
    """The record of a run was created: `pylaunch ps` lists it."""

    plan: RunPlan


@dataclass(frozen=True)
class SpareRefused:
    """A spare cannot take part and was dropped."""

    host: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class AttemptStarted:
    """An attempt connects to its nodes."""

    plan: RunPlan


@dataclass(frozen=True)
class Waiting:
    """The start waits in the queue."""

    blocked_by: tuple[str, ...]
    """Devices, ports and runs that block it, in words, hosts folded."""


@dataclass(frozen=True)
class TurnLost:
    """A run that did not queue took the devices first. The start queues again, as a run with a new id."""


@dataclass(frozen=True)
class FindingReported:
    """A check beside the start, or the comparison of its nodes, found something that does not prevent it."""

    finding: Finding


@dataclass(frozen=True)
class TreeChanged:
    """Files of the shipped tree changed after it was read. All nodes have the content from before."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class RanksReleased:
    """All ranks of an attempt run."""

    plan: RunPlan
    start: Start


@dataclass(frozen=True)
class AttemptRefused:
    """No rank of an attempt was started, and another attempt may follow."""

    plan: RunPlan
    error: ClusterNotReadyError


@dataclass(frozen=True)
class AttemptEnded:
    """An attempt whose ranks ran is over."""

    plan: RunPlan
    outcome: Outcome
    ran_s: float | None
    """From the release to the end of the last rank; None where no release was seen."""


@dataclass(frozen=True)
class RunEnded:
    """The run is over, with all of its attempts. The last event of a start that raises no error."""

    plan: RunPlan
    """The first attempt."""

    outcome: Outcome
    """The last attempt's."""


StartEvent = (
    LeftoverEnded
    | RunBegun
    | SpareRefused
    | AttemptStarted
    | Waiting
    | TurnLost
    | FindingReported
    | TreeChanged
    | RanksReleased
    | RunEvent
    | AttemptRefused
    | AttemptEnded
    | Restarting
    | NoRestart
    | RunEnded
)
"""`model.run.Event` reports what the record keeps: nodes prepared, ranks started and ended, contact lost."""

Emit = Callable[[StartEvent], None]
"""Called in the thread that runs the start, on its event loop: it must not block."""
