"""Surveys for checks to judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.finding import Finding
from pylaunch.preflight.check import Check
from pylaunch.preflight.suite import judge
from pylaunch.preflight.survey import Look, Survey, Wanted


def survey(readings: Mapping[str, Mapping[str, Any]], wanted: Wanted | None = None) -> Survey:
    """A survey of the hosts in `readings` (host → reader → what it found)."""
    cluster = Cluster(tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(readings, start=1)))
    return Survey(cluster, wanted or Wanted(), {name: Look(dict(found)) for name, found in readings.items()})


def alike(reading: Mapping[str, Any], **odd: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Three hosts with the same reading, except what `odd` says of some."""
    return {name: {**reading, **odd.get(name, {})} for name in ("n1", "n2", "n3")}


def findings(
    checks: Sequence[Check], readings: Mapping[str, Mapping[str, Any]], wanted: Wanted | None = None
) -> list[Finding]:
    """What `checks` find."""
    return list(judge(survey(readings, wanted), checks))
