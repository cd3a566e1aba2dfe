"""A check: what it asks the hosts, what it compares, and how it judges the answers of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pylaunch.model.cluster import Host
from pylaunch.model.finding import Finding, Severity
from pylaunch.preflight.survey import Survey, Wanted

Asks = Callable[[Host, Wanted], Mapping[str, Any]]
"""Reader → question for one host; empty when the check has nothing to ask it. "reader#label" asks it more than one."""


@dataclass(frozen=True)
class Check:
    """One thing that can be wrong."""

    id: str
    """`subject.name`, as given to --only and --skip."""

    title: str
    why: str
    """Effect on a run, in one sentence."""

    compares: str
    """Reference of the comparison: the majority, the inventory, or a threshold with its source."""

    severity: Severity
    """The worst it can say."""

    asks: Asks
    judge: Callable[[Survey], Iterable[Finding]]
    deep: bool = False
    """Only under --deep: it loads the hosts or takes more than a moment."""

    silence: Severity = Severity.UNKNOWN
    """Severity of a timeout: a run that touches the same thing would hang too."""
