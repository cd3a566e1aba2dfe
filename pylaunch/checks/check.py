"""A check: its questions to the hosts, its reference, and its judgement of all answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold

Asks = Callable[[Host, Wanted], Mapping[str, Any]]
"""Returns reader → question for one host; empty when there is nothing to ask. "reader#label" asks a reader twice."""


class AtStart(Enum):
    """The part of a check in `pylaunch start`."""

    ASKED = "asked"
    """The probe runs it during the preparation; a failure refuses the start, a warning is printed."""

    REPORTED = "reported"
    """Judged from reports and connection attempts of the preparing agents; refuses and warns like ASKED."""

    AGENT = "agent"
    """The connection to the agent, or the agent itself, refuses; --skip affects only GPUs."""

    NOT_ASKED = "not asked"
    """It costs too much for every start, or what it finds does not stop a run. `pylaunch check` runs it."""


@dataclass(frozen=True)
class Check:
    """One property of hosts that is checked."""

    id: str
    """`subject.name`, as in --only and --skip."""

    title: str
    why: str
    """Effect on a run, in one sentence."""

    compares: str
    """Reference of the comparison: the majority, the inventory, or a threshold with its source."""

    severity: Severity
    """The worst severity of its findings."""

    asks: Asks
    judge: Callable[[Survey], Iterable[Finding]]
    silence: Severity = Severity.UNKNOWN
    """Severity when a reader of the check times out. FAIL where a run would hang on the same file or device."""

    at_start: AtStart = AtStart.NOT_ASKED
    at_start_why: str = ""
    """What it verifies at a start, where that is not all; or where else a start finds the problem. No final period."""

    refusals: tuple[str, ...] = ()
    """Codes of the reasons (`protocol.Reason`) for which agents refuse, unless this check is skipped."""


def asks(*readers: str) -> Asks:
    """Return questions for `readers` that need to know nothing."""
    return lambda host, wanted: dict.fromkeys(readers)


MARKS = {Severity.FAIL: "FAIL", Severity.WARN: "warn", Severity.UNKNOWN: "????", Severity.NOTE: "note"}
INDENT = " " * 6
FIX = f"{INDENT}fix: "


def lines(finding: Finding) -> list[str]:
    """Return a finding as lines: its hosts and text, evidence, and the command that fixes it."""
    return [
        f"{MARKS[finding.severity]}  {fold(finding.hosts)}: {finding.text}  [{finding.check}]",
        *(f"{INDENT}| {line}" for text in finding.evidence for line in text.split("\n")),
        *([f"{FIX}{finding.fix}"] if finding.fix else []),
    ]


def all_lines(findings: Sequence[Finding]) -> list[str]:
    """Return the lines of several findings, in the order given."""
    return [line for finding in findings for line in lines(finding)]
