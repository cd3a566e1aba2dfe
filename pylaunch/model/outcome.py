"""Outcome of a run, and the reports of its ranks that it is derived from."""

from collections.abc import Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import ExitCode, RunFailedError
from pylaunch.model.diagnosis.cause import FailureCause, RejectedCause
from pylaunch.model.diagnosis.cause import Named as Named
from pylaunch.model.diagnosis.hang import HangFinding
from pylaunch.protocol.node_evidence import HostEvidence, RankEnd


class Status(Enum):
    """Final status of a run."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    REFUSED = "refused"
    """No rank was started."""

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a verb that followed a run, or a job of several roles, to this end."""
        return {
            Status.DONE: ExitCode.DONE,
            Status.FAILED: ExitCode.JOB_FAILED,
            Status.STOPPED: ExitCode.INTERRUPTED,
            Status.REFUSED: ExitCode.CLUSTER_NOT_READY,
        }[self]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run on all nodes."""

    status: Status
    reason: str
    """Reason in one line."""

    ended_at: float
    ends: tuple[RankEnd, ...]
    leftovers: Mapping[str, tuple[str, ...]]
    """Leftovers that could not be removed, by host; empty proves that the hosts are clean."""

    unproven: tuple[str, ...] = ()
    """Hosts that could not be queried."""

    first_failure: RankEnd | None = None
    """End whose last lines are shown: that of the named rank, else that of the first victim."""

    named: Named | None = None
    """FailureCause of the failure; None if the evidence names no rank and no node."""

    by_hand: bool = False
    """A person requested the end, whatever else happened."""

    refusals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Reasons of each host that could not take part, if no rank was started."""

    evidence: tuple[str, ...] = ()
    """Lines that were printed below the reason when it was first reported."""

    hint: str = ""
    """Hint, as it was first printed."""

    causes: tuple[FailureCause, ...] = ()
    """Causes of the failure, the most credible first; () for a run that did not fail."""

    rejected: tuple[RejectedCause, ...] = ()
    """Observations that look like causes and are none."""

    hosts: tuple[HostEvidence, ...] = ()
    """Facts of each host when it began to stop because of a failure."""

    hang: HangFinding | None = None
    """Finding that ended the run because its ranks did not advance (`JobSpec.on_hang`); None without one."""

    answering: tuple[str, ...] = ()
    """Hosts that answered when the agent of the run there no longer did."""

    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Reasons why the files of the run could not be read at its end, by host."""

    def raise_for_failure(self) -> None:
        """Raises RunFailedError, with the last lines of the rank that is named, unless the run is done."""
        if self.status is not Status.DONE:
            lines = () if self.first_failure is None else self.first_failure.last_lines
            raise RunFailedError(
                f"run {self.status.value}: {self.reason}", evidence=self.evidence or lines, hint=self.hint or None
            )

    @property
    def furthest_step(self) -> int | None:
        """Furthest step that any rank has marked."""
        return max((end.step for end in self.ends if end.step is not None), default=None)
