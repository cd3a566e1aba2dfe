"""Surveys as input of the checks."""

from collections.abc import Mapping, Sequence
from typing import Any

from pylaunch.checks.check import Check
from pylaunch.checks.suite import judge
from pylaunch.checks.survey import Look, Survey, Wanted
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding


def survey(readings: Mapping[str, Mapping[str, Any]], wanted: Wanted | None = None) -> Survey:
    """Return a survey of the hosts in `readings` (host → reader → value)."""
    cluster = Cluster(tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(readings, start=1)))
    return Survey(cluster, wanted or Wanted(), {name: Look(dict(found)) for name, found in readings.items()})


def alike(reading: Mapping[str, Any], **odd: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return three hosts with the same readings, except those in `odd`."""
    return {name: {**reading, **odd.get(name, {})} for name in ("n1", "n2", "n3")}


def findings(
    checks: Sequence[Check], readings: Mapping[str, Mapping[str, Any]], wanted: Wanted | None = None
) -> list[Finding]:
    """Return the findings of `checks`."""
    return list(judge(survey(readings, wanted), checks))
