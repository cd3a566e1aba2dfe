"""Input of a report: everything that is known about a run."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.run import RunRecord
from pylaunch.protocol.examination import RankView
from pylaunch.terminal.doors import Measured


@dataclass(frozen=True)
class ReportInput:
    """A run, with what its record, its nodes and this machine know about it."""

    record: RunRecord
    made_at: float
    """Seconds since the epoch."""

    findings: tuple[Finding, ...] = ()
    """Findings of the checks that ran beside the start."""

    views: tuple[RankView, ...] = ()
    """Ranks as they were before the run was stopped."""

    logs: Mapping[int, str] = field(default_factory=dict)
    """Last lines by rank, as its node has them; the lines of the outcome are shown for other ranks."""

    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Facts that must be equal on all nodes, by host: fact → value."""

    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Variables that all ranks of a node share, by host."""

    measured: Measured | None = None
    """Results of the measurement that the run was a part of."""

    versions: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """Reasons for missing content, one line each."""
