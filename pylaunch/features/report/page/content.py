"""Input of a report: everything that is known about a run."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.run import RunRecord


@dataclass(frozen=True)
class ReportInput:
    """A run, with what its record, its nodes and this machine know about it."""

    record: RunRecord
    made_at: float
    """Seconds since the epoch."""

    findings: tuple[Finding, ...] = ()
    """Findings of the checks that ran beside the start."""

    logs: Mapping[int, str] = field(default_factory=dict)
    """Last lines by rank, as its node has them; the lines of the outcome are shown for other ranks."""

    versions: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """Reasons for missing content, one line each."""
