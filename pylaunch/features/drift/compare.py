"""Compare hosts with each other, and with a record of them.

found  = look(cluster)                  every host reports all facts; nothing is changed
report = drift(found, before)           facts on which hosts disagree
made   = attest(found, inventory, …)    a sealed record of the hosts, kept next to the inventory
report = changes_since(found, before)   facts that are no longer as they were attested
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pylaunch import __version__
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.drift.judgement import CONFIGURATION_GROUP, Cause, Report, compare
from pylaunch.model.attestation import Attestation, HostRecord
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import pylaunch
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.ask import Unreachable
from pylaunch.provision.convergence import ProvisionSurvey, site_request, survey
from pylaunch.provision.errors import unreachable_error
from pylaunch.provision.observed.drift import is_wanted
from pylaunch.provision.observed.facts import Facts
from pylaunch.provision.state import RoleState
from pylaunch.store import attestations


@dataclass(frozen=True)
class HostsFound:
    """Facts of all hosts that answered."""

    cluster: Cluster
    survey: ProvisionSurvey

    @property
    def names(self) -> tuple[str, ...]:
        """Hosts that answered."""
        return tuple(self.survey.facts)

    @property
    def missing(self) -> dict[str, Unreachable]:
        """Hosts without an answer, or without an interpreter that could give one."""
        without = self.survey.without_python
        hint = pylaunch("provision", "--limit", fold(without))
        return self.survey.unreachable | {host: Unreachable("no Python there", hint) for host in without}

    def raise_if_missing(self) -> None:
        """Raises ClusterNotReadyError when a host has no answer."""
        if self.missing:
            raise unreachable_error(self.missing, self.cluster)


def inventory_of(cluster: Cluster, verb: str) -> Path:
    """Return the inventory of `cluster`. Raises UsageError for this machine alone, which has no peers."""
    if not cluster.sources:
        raise UsageError(f"{verb} compares the hosts of an inventory", hint=f"pylaunch {verb} -i cluster.ini")
    return Path(cluster.sources[0])


def ask_all_facts(cluster: Cluster) -> HostsFound:
    """Ask every host for all facts, also those that no role needs."""
    return HostsFound(cluster, survey(site_request(cluster), host_facts=True))


def drift(found: HostsFound, before: Attestation | None) -> Report:
    """Return the facts on which hosts disagree, explained by what the roles want and by the attestation `before`."""
    known = before.hosts if before is not None else {}
    return compare(records(found.survey), expectations(found.survey), known)


def attest(found: HostsFound, inventory: Path, *, of_all_hosts: bool) -> tuple[Attestation, Path]:
    """Seal a record of the hosts and keep it next to `inventory`; return it with its file.

    A record `of_all_hosts` becomes the one that `drift` compares with. Raises ClusterNotReadyError when a host has no
    answer.
    """
    found.raise_if_missing()
    made = attestation(found.survey)
    return made, attestations.keep(inventory, made, of_all_hosts=of_all_hosts)


def changes_since(found: HostsFound, before: Attestation, file: Path) -> Report:
    """Return the facts that are not as `before`, read from `file`, attests them.

    Raises ClusterNotReadyError when a host has no answer, or is not in `before`.
    """
    found.raise_if_missing()
    hosts = records(found.survey)
    if unknown := [host for host in hosts if host not in before.hosts]:
        raise ClusterNotReadyError(
            f"{file} does not contain {fold(unknown)}", hint="attest all hosts again: pylaunch attest"
        )
    report = compare(hosts, {}, before.hosts)
    changed = (each for each in report.oddities if any(why.cause is Cause.TIME for why in each.why))
    return Report(tuple(changed), report.unread)


def changed_hosts(report: Report) -> frozenset[str]:
    """Return the hosts that are odd in some fact of `report`."""
    return frozenset(host for oddity in report.oddities for host in oddity.hosts)


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
