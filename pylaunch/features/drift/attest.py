"""Records for attestations, made from the facts of hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pylaunch import __version__
from pylaunch.features.drift.judgement import CONFIGURATION_GROUP
from pylaunch.model.attestation import Attestation, HostRecord
from pylaunch.probe.answers import Unmeasured
from pylaunch.provision.drift import is_wanted
from pylaunch.provision.facts import Facts
from pylaunch.provision.state import RoleState
from pylaunch.provision.workflow import ProvisionSurvey


def attestation(found: ProvisionSurvey, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Attestation:
    """Return the record of every host that answered a survey with host facts."""
    made_at = now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return Attestation(made_at, __version__, records(found))


def records(found: ProvisionSurvey) -> dict[str, HostRecord]:
    """Return one record per host that answered a survey with host facts."""
    return {
        host: record(found.desired.hosts[host], answer)
        for host, answer in found.answers.items()
        if isinstance(answer, Facts)
    }


def record(states: Sequence[RoleState], facts: Facts) -> HostRecord:
    """Return the facts of one host as groups: its host facts, and the files and settings of the roles."""
    groups = dict(facts.host_facts)
    own = groups.pop("own", {})
    files = [file for state in states for file in state.files if is_wanted(file, facts)]
    groups[CONFIGURATION_GROUP] = {file.path: _part(facts.files[file.path], "sha256") for file in files}
    keys = [key for state in states for key in state.sysctls]
    groups["kernel settings"] = {key: _part(facts.sysctls[key], "value") for key in keys}
    return HostRecord(groups, own)


def expectations(found: ProvisionSurvey) -> dict[str, dict[str, str]]:
    """Return the differences from the desired state: host → subject → difference."""
    return {host: {change.subject: change.difference for change in changes} for host, changes in found.changes.items()}


def _part(fact: Mapping[str, Any] | Unmeasured | None, name: str) -> str | None:
    if isinstance(fact, Unmeasured):
        return f"unreadable: {fact.reason}"
    return fact[name] if fact is not None else None
