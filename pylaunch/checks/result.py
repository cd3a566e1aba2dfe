"""Result of one check of hosts: findings, worst first, and the checks that were asked. Pure."""

from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field
from pylaunch.checks.check import Check
from pylaunch.checks.survey import Survey
from pylaunch.checks.unreachable import shared_failures
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.probe.answers import Unmeasured

REACH = "reach.host"
"""Check id of hosts that could not be asked at all."""


@dataclass(frozen=True)
class Result:
    """Findings of `checks` on `hosts`."""

    hosts: tuple[str, ...]
    checks: tuple[str, ...]
    """Ids of the checks that ran."""

    findings: tuple[Finding, ...]
    """Worst first."""

    seconds: float
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Unreachable hosts, with the reason."""

    not_looked_at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Check → hosts that did not answer all its questions: neither passed nor failed there."""

    @property
    def failed(self) -> bool:
        """A run on these hosts cannot work."""
        return any(finding.severity is Severity.FAIL for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """Findings of one severity."""
        return sum(finding.severity is severity for finding in self.findings)


def result(survey: Survey, checks: Sequence[Check], findings: Sequence[Finding], seconds: float) -> Result:
    """Return the findings in order, with those about unreachable hosts."""
    found = [*_unreachable(survey, findings), *findings]
    order = list(Severity)
    named, there = {finding.check for finding in findings}, survey.cluster.hosts
    asked = [each.id for each in checks if each.id in named or any(each.asks(host, survey.wanted) for host in there)]
    ordered = sorted(found, key=lambda finding: order.index(finding.severity))
    unreachable = {name: why.reason for name, why in survey.unreachable.items()}
    silent = {check.id: hosts for check in checks if (hosts := _silent(survey, check))}
    return Result(survey.cluster.names, tuple(asked), tuple(ordered), seconds, unreachable, silent)


def _silent(survey: Survey, check: Check) -> tuple[str, ...]:
    hosts = []
    for host in survey.cluster.hosts:
        look = survey.looks.get(host.name)
        if look is not None and look.is_complete and host.name not in survey.unreachable:
            continue
        wanted = check.asks(host, survey.wanted)
        readings = look.readings if look is not None else {}
        is_unreached = host.name in survey.unreachable and not readings.keys() & wanted.keys()
        if wanted and (is_unreached or any(isinstance(readings.get(reader), Unmeasured) for reader in wanted)):
            hosts.append(host.name)
    return tuple(hosts)


def _unreachable(survey: Survey, findings: Sequence[Finding]) -> list[Finding]:
    """One finding per error of hosts that could not be asked; none where another finding already explains it."""
    explained = {host for finding in findings if finding.check.startswith("reach.") for host in finding.hosts}
    silent = {name: why for name, why in survey.unreachable.items() if name not in explained}
    return [
        Finding(REACH, Severity.FAIL, each.hosts, f"cannot be asked: {each.reason}", each.hint)
        for each in shared_failures(survey.cluster, silent)
    ]
