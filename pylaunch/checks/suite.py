"""All checks: take the survey that they need, and judge it.

found = check(cluster, job, needs, checks)    one question to every host; nothing is changed
"""

import difflib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.checks import mesh
from pylaunch.checks.check import Check
from pylaunch.checks.devices import gpu, gpu_health, gpu_use, infiniband
from pylaunch.checks.hosts import code, host, leftovers, limits, network, python_env, reach, storage
from pylaunch.checks.survey import REACH, Look, Survey, Wanted, not_reached, wanted_by
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.model.job import EVERY, USUAL_PORT, JobSpec
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.probe import answers
from pylaunch.probe.answers import MALFORMED, Unmeasured, what_is_wrong
from pylaunch.probe.ask import TIMEOUT_S, Answered, gather_answers, understood_all
from pylaunch.probe.program import probe
from pylaunch.transport import interrupts

CHECKS: tuple[Check, ...] = (
    *reach.CHECKS,
    *network.CHECKS,
    *host.CHECKS,
    *limits.CHECKS,
    *storage.CHECKS,
    *host.CLOCK_CHECKS,
    *python_env.CHECKS,
    *host.ROLE_CHECKS,
    *limits.LOGIN_CHECKS,
    *code.CHECKS,
    *python_env.CONTAINER_CHECKS,
    *leftovers.CHECKS,
    *gpu.CHECKS,
    *gpu_health.CHECKS,
    *gpu_use.CHECKS,
    *infiniband.CHECKS,
)


async def take_survey(
    cluster: Cluster, wanted: Wanted, checks: Sequence[Check], timeout_s: float = TIMEOUT_S
) -> Survey:
    """Ask all hosts of `cluster` the questions of `checks` at once."""
    wanted = replace(wanted, peers={each.name: each.rank_address for each in cluster.hosts})
    questions = {each.name: questions_for(each, wanted, checks) for each in cluster.hosts}
    found = await _survey(cluster, wanted, questions, timeout_s)
    if any(mesh.READINGS & asked.keys() for asked in questions.values()):
        found = replace(found, looks=await _with_mesh(found))
    return found


def questions_for(host: Host, wanted: Wanted, checks: Sequence[Check]) -> dict[str, Any]:
    """Reader → question, of all `checks` for one host."""
    questions: dict[str, Any] = {}
    for check in checks:
        questions.update(check.asks(host, wanted))
    return questions


async def _survey(
    cluster: Cluster, wanted: Wanted, questions: Mapping[str, Mapping[str, Any]], timeout_s: float
) -> Survey:
    """Ask every host its own `questions` (host → reader → question)."""
    programs = {
        name: probe({reader: question for reader, question in asked.items() if reader not in mesh.READINGS})
        for name, asked in questions.items()
    }
    looks, unreachable = understood_all(await gather_answers(cluster, programs, timeout_s), cluster, _look)
    return Survey(
        cluster, wanted, {name: _as_asked(look, questions[name]) for name, look in looks.items()}, unreachable
    )


def _as_asked(look: Look, questions: Iterable[str]) -> Look:
    """Return `look` with a reading for each of `questions`, and no other: what a host leaves out passes no check."""
    asked = [reader for reader in questions if reader not in mesh.READINGS]
    return Look(
        {reader: look.readings.get(reader, Unmeasured("its answer lacks this reading")) for reader in asked},
        {reader: look.seconds[reader] for reader in asked if reader in look.seconds},
    )


async def _with_mesh(survey: Survey) -> dict[str, Look]:
    """Return the looks of the hosts that answered, with the results of the network between them."""
    found = await mesh.measure_mesh(survey.cluster.only(survey.looks), survey.wanted.port)
    return {name: replace(look, readings={**look.readings, **found[name]}) for name, look in survey.looks.items()}


def _look(answered: Answered) -> Look:
    """Decode an answer of `probe.runtime`. Raises an exception of `MALFORMED` for an answer of another shape."""
    taken = answers.readings(answered, answered["readings"])
    return Look(
        {name: _decoded(name, reading) for name, reading in taken.items()},
        {name: reading.seconds for name, reading in taken.items()},
    )


def _decoded(name: str, reading: answers.Reading) -> Any:
    try:
        return answers.decoded_reading(name, reading)
    except MALFORMED as error:
        return Unmeasured(f"its answer is not understood ({what_is_wrong(error)})")


def judge(survey: Survey, checks: Iterable[Check]) -> tuple[Finding, ...]:
    """Return the findings of `checks`, and one for each question that a host could not answer. Pure.

    Equal findings are merged; then {hosts} in a fix becomes the hosts of the finding.
    """
    found: list[Finding] = []
    reported: set[tuple[str, str]] = set()
    for check in checks:
        found += _unmeasured(check, survey, reported)
        found += _judged(check, survey)
    return tuple(replace(each, fix=each.fix.replace("{hosts}", fold(each.hosts))) for each in folded(found))


def _judged(check: Check, survey: Survey) -> list[Finding]:
    """Return the findings of `check`; if it cannot judge an answer, those before it and one about all hosts."""
    found: list[Finding] = []
    try:
        found.extend(check.judge(survey))
    except MALFORMED as error:
        text = f"{check.title}: the answers of these hosts cannot be compared ({what_is_wrong(error)})"
        found.append(Finding(check.id, Severity.UNKNOWN, tuple(survey.looks), text))
    return found


def _unmeasured(check: Check, survey: Survey, reported: set[tuple[str, str]]) -> Iterable[Finding]:
    """Yield a finding for each reader without a value, from the first check that asks the reader."""
    for each in survey.cluster.hosts:
        look = survey.looks.get(each.name)
        if look is None or look.is_complete:
            continue
        for reader in check.asks(each, survey.wanted):
            reading = look.readings.get(reader)
            if isinstance(reading, Unmeasured) and (each.name, reader) not in reported:
                reported.add((each.name, reader))
                severity = check.silence if reading.silent else Severity.UNKNOWN
                what = reader.partition("#")[2] or check.title
                yield Finding(check.id, severity, (each.name,), f"{what}: {reading.reason}")


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Merge equal findings about several hosts into one, in the order of their first appearance."""
    together: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        key = (finding.check, finding.severity, finding.text, finding.fix, finding.role, finding.evidence)
        before = together.get(key)
        hosts = (*(before.hosts if before is not None else ()), *finding.hosts)
        together[key] = Finding(
            finding.check, finding.severity, hosts, finding.text, finding.fix, finding.role, finding.evidence
        )
    return list(together.values())


NEAREST = 3


def select(checks: Sequence[Check], *, only: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the selected checks, in their order. An id names one check, a subject ("storage") all of its checks.

    Raises UsageError for unknown names.
    """
    unknown = [name for name in (*only, *skip) if not any(matches(check.id, name) for check in checks)]
    if unknown:
        raise UsageError(
            f"no such check: {', '.join(unknown)}",
            evidence=[f"{name}: {suggestion}" for name in unknown if (suggestion := nearest(checks, name))],
            hint="all checks: pylaunch help checks",
        )
    chosen = [check for check in checks if not only or any(matches(check.id, name) for name in only)]
    return tuple(check for check in chosen if not any(matches(check.id, name) for name in skip))


def matches(check: str, name: str) -> bool:
    """Return whether `name` is the id `check`, its subject, or EVERY."""
    return name in (check, check.partition(".")[0], EVERY)


def nearest(checks: Sequence[Check], name: str) -> str:
    """Return a suggestion of similar names; "" when there is none."""
    names = [*(check.id for check in checks), *dict.fromkeys(check.id.partition(".")[0] for check in checks)]
    near = difflib.get_close_matches(name, names, NEAREST)
    near = near or [check.id for check in checks if name in check.id or name in check.title][:NEAREST]
    return f"did you mean {', '.join(near)}?" if near else ""


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
    is_reported = any(each.check == REACH for each in findings)
    found = [*([] if is_reported else not_reached(survey.cluster, survey.unreachable)), *findings]
    order = list(Severity)
    named, there = {finding.check for finding in findings}, survey.cluster.hosts
    asked = [each.id for each in checks if each.id in named or any(each.asks(host, survey.wanted) for host in there)]
    ordered = sorted(found, key=lambda finding: order.index(finding.severity))
    unreachable = {name: why.reason for name, why in survey.unreachable.items()}
    silent = {check.id: hosts for check in checks if (hosts := _silent(survey, check))}
    return Result(survey.cluster.names, tuple(asked), tuple(ordered), seconds, unreachable, silent)


def _silent(survey: Survey, check: Check) -> tuple[str, ...]:
    hosts = []
    for each in survey.cluster.hosts:
        look = survey.looks.get(each.name)
        if look is not None and look.is_complete and each.name not in survey.unreachable:
            continue
        wanted = check.asks(each, survey.wanted)
        readings = look.readings if look is not None else {}
        is_unreached = each.name in survey.unreachable and not readings.keys() & wanted.keys()
        if wanted and (is_unreached or any(isinstance(readings.get(reader), Unmeasured) for reader in wanted)):
            hosts.append(each.name)
    return tuple(hosts)


NO_SCRIPT = ("",)
"""Command of a job for which only the hosts are checked."""


@dataclass(frozen=True)
class Needs:
    """Requirements of a run that are no part of its job."""

    files: tuple[str, ...] = ()
    """Files that must be equal on all hosts; relative ones start at the working directory."""

    checkpoint_dir: str = ""
    infiniband: bool = False
    workdir: str = ""
    """Working directory to check although there is no script."""


def check(cluster: Cluster, job: JobSpec, needs: Needs, checks: Sequence[Check]) -> Result:
    """Ask every host that `job` would run on, and judge the answers. Hosts that do not answer are findings, not errors.

    Raises UsageError for a job that does not fit the cluster.
    """
    begun = time.monotonic()
    plan = plan_run(cluster, job, "check")
    survey = interrupts.run(take_survey(plan.cluster, _wanted(plan, needs), checks))
    return result(survey, checks, judge(survey, checks), time.monotonic() - begun)


def _wanted(plan: RunPlan, needs: Needs) -> Wanted:
    """Return the needs of the run; without a script, only those that were named."""
    job = plan.job
    wanted = replace(
        wanted_by(plan),
        files=needs.files,
        checkpoint_dir=needs.checkpoint_dir,
        infiniband=needs.infiniband,
        port=job.rendezvous_port or USUAL_PORT,
        any_port=job.rendezvous_port is None,
    )
    root = "/" if needs.files else ""
    if job.command != NO_SCRIPT:
        # Shipped code needs no comparison; files of the hosts do, and start at "/".
        return replace(wanted, workdir=root if job.sync is not None and needs.files else wanted.workdir)
    return replace(
        wanted,
        workdir=(needs.workdir if job.sync is None else "") or root,
        command=(),
        script="",
        pythons=wanted.pythons if job.python else {},
    )
