"""A check: its questions to the hosts, its reference, and its judgement of all answers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity

Asks = Callable[[Host, Wanted], Mapping[str, Any]]
"""Returns reader → question for one host; empty when there is nothing to ask. "reader#label" asks a reader twice."""


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
    deep: bool = False
    """Run only with --deep: the check loads the hosts or takes seconds."""

    silence: Severity = Severity.UNKNOWN
    """Severity when a reader of the check times out. FAIL where a run would hang on the same file or device."""


def asks(*readers: str) -> Asks:
    """Return questions for `readers` that need to know nothing."""
    return lambda host, wanted: dict.fromkeys(readers)
