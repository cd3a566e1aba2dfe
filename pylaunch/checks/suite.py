"""All checks: take the survey that they need, and judge it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pylaunch.base.dataclass import replace
from pylaunch.checks import mesh
from pylaunch.checks.check import Check
from pylaunch.checks.devices import gpu, gpu_health, gpu_use, infiniband
from pylaunch.checks.hosts import (
    clock,
    code,
    containers,
    host,
    kernel,
    leftovers,
    limits,
    login,
    network,
    provisioned,
    python_env,
    reach,
    storage,
)
from pylaunch.checks.result import REACH
from pylaunch.checks.survey import Look, Survey, Wanted
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.probe import answers
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.ask import PLAIN, Answered, Asking, NoPython, Unreachable, ask, understood_all
from pylaunch.probe.program import probe
from pylaunch.transport.answers import MALFORMED, what_is_wrong
from pylaunch.transport.connections import diagnose_connections

CHECKS: tuple[Check, ...] = (
    *reach.CHECKS,
    *network.CHECKS,
    *clock.CHECKS,
    *limits.CHECKS,
    *storage.CHECKS,
    *host.CHECKS,
    *kernel.CHECKS,
    *python_env.CHECKS,
    *provisioned.CHECKS,
    *login.CHECKS,
    *code.CHECKS,
    *containers.CHECKS,
    *leftovers.CHECKS,
    *gpu.CHECKS,
    *gpu_health.CHECKS,
    *gpu_use.CHECKS,
    *infiniband.CHECKS,
)


def take(
    cluster: Cluster,
    wanted: Wanted,
    checks: Sequence[Check],
    *,
    how: Asking = PLAIN,
) -> Survey:
    """Ask all hosts of `cluster` the questions of `checks` at once; if files differ, ask again for their content.

    Ending `how.together` cancels the survey.
    """
    wanted = replace(wanted, peers={each.name: each.rank_address for each in cluster.hosts})
    questions = {each.name: questions_for(each, wanted, checks) for each in cluster.hosts}
    ask_all = partial(ask, how=how)
    found = _survey(cluster, wanted, questions, ask_all)
    if any(mesh.READINGS & asked.keys() for asked in questions.values()):
        found = replace(found, looks=_with_mesh(found))
    if any(check.id == REACH for check in checks):
        found = replace(found, unreachable=_diagnosed(found))
    try:
        to_show = code.texts_to_ask(found)
    except MALFORMED:
        return found  # `judge` names the host.
    if not to_show:
        return found
    shown = _survey(cluster.only(to_show), wanted, to_show, ask_all)
    looks = {
        name: replace(look, readings={**look.readings, **shown.looks[name].readings}) if name in shown.looks else look
        for name, look in found.looks.items()
    }
    return replace(found, looks=looks)


def questions_for(host: Host, wanted: Wanted, checks: Sequence[Check]) -> dict[str, Any]:
    """Reader → question, of all `checks` for one host."""
    questions: dict[str, Any] = {}
    for check in checks:
        questions.update(check.asks(host, wanted))
    return questions


def _survey(
    cluster: Cluster,
    wanted: Wanted,
    questions: Mapping[str, Mapping[str, Any]],
    ask_all: Callable[[Cluster, Mapping[str, bytes]], Mapping[str, Answered | Unreachable | NoPython]],
) -> Survey:
    """Ask every host its own `questions` (host → reader → question)."""
    programs = {
        name: probe({reader: question for reader, question in asked.items() if reader not in mesh.READINGS})
        for name, asked in questions.items()
    }
    looks, unreachable = understood_all(ask_all(cluster, programs), cluster, _look)
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


def _with_mesh(survey: Survey) -> dict[str, Look]:
    """Return the looks of the hosts that answered, with the results of the network between them."""
    found = mesh.measure_mesh(survey.cluster.only(survey.looks), survey.wanted.port)
    return {name: replace(look, readings={**look.readings, **found[name]}) for name, look in survey.looks.items()}


def _diagnosed(survey: Survey) -> dict[str, Unreachable]:
    """Return the unreachable hosts, with evidence for each whose connection failed."""
    failed = [name for name, why in survey.unreachable.items() if why.connection_failed]
    evidence = diagnose_connections(survey.cluster.only(failed)) if failed else {}
    return {name: replace(why, evidence=evidence.get(name, ())) for name, why in survey.unreachable.items()}


def _look(answered: Answered) -> Look:
    """Decode an answer of `probe.runtime`. Raises an exception of `MALFORMED` for an answer of another shape."""
    taken = answers.readings(answered, answered["readings"])
    return Look(
        {name: _decoded(name, reading) for name, reading in taken.items()},
        {name: reading.seconds for name, reading in taken.items()},
    )


def _decoded(name: str, reading: answers.Reading) -> Any:
    try:
        return answers.decoded(name, reading)
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
    """Return the findings of `check`. A host with a malformed answer gets a finding of its own and is not judged."""
    try:
        return list(check.judge(survey))
    except MALFORMED as error:
        odd = _malformed(check, survey)
        if not odd:
            raise
        text = f"{check.title}: its answer is not understood ({what_is_wrong(error)})"
        rest = replace(survey, looks={name: look for name, look in survey.looks.items() if name not in odd})
        return [*(Finding(check.id, Severity.UNKNOWN, (name,), text) for name in odd), *_judged(check, rest)]


def _malformed(check: Check, survey: Survey) -> list[str]:
    """Return the hosts whose answers `check` cannot judge, alone or with others; empty if no host is the cause."""

    def is_judged(looks: Mapping[str, Look]) -> bool:
        try:
            list(check.judge(replace(survey, looks=looks)))
        except MALFORMED:
            return False
        return True

    if not is_judged({}):
        return []
    alone = [name for name, look in survey.looks.items() if not is_judged({name: look})]
    if alone:
        return alone
    looks = survey.looks
    return [name for name in looks if is_judged({each: look for each, look in looks.items() if each != name})][:1]


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
