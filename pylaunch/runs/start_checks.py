"""Checks of a start: asked beside the preparation, judged with the facts of all nodes before any rank exists."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from pylaunch.base.dataclass import replace
from pylaunch.checks import mesh, suite
from pylaunch.checks.check import AtStart, Check, all_lines
from pylaunch.checks.occupancy.look import look, sweep
from pylaunch.checks.suite import Result, result, select
from pylaunch.checks.survey import REACH, Look, Survey, wanted_by
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.diagnosis.finding import ATTESTATION, Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones
from pylaunch.model.hostset import fold
from pylaunch.model.job import USUAL_PORT
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import EventKind
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.ask import TIMEOUT_S
from pylaunch.protocol.node_task import CONTAINER_IMAGE, GPU_MODELS
from pylaunch.runs.events import Emit, event, notice
from pylaunch.runs.prepare.session import NodesRefusedError, PreparedNodes

JUDGED = {
    "host.kernel": ("kernel series",),
    "python_env.libraries": ("environment digest", "torch", "nccl"),
    "python_env.python": ("python",),
}
"""Check → names of the essentials that it judges at a start; an environment only where ranks have one."""

FREED_BY_OTHERS = ("storage.room", "storage.shared_memory", "host.memory")
"""Checks that may pass when another run ends: a queued start does not refuse for them before its turn."""


class ChecksFailedError(NodesRefusedError):
    """Checks found that the run cannot work."""

    def __init__(self, findings: Sequence[Finding], of_hosts: int) -> None:
        self.findings = tuple(findings)
        reasons: dict[str, tuple[str, ...]] = {}
        for finding in findings:
            reasons |= {host: (*reasons.get(host, ()), finding.text) for host in finding.hosts}
        super().__init__(
            f"checks failed on {len(reasons)} of {of_hosts} hosts, so no rank was started",
            reasons,
            evidence=all_lines(findings),
            hint=f"fix the cause, or start anyway: --skip {','.join(dict.fromkeys(each.check for each in findings))}",
        )


def at_start_checks(*, skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks of a start without those of `skip`. Raises UsageError for names that do not exist."""
    chosen = select(suite.CHECKS, skip=skip)
    return tuple(check for check in chosen if check.at_start in (AtStart.ASKED, AtStart.REPORTED))


class ChecksAtStart:
    """The checks of one start, beside it. Entering begins them; leaving ends questions that are still open."""

    def __init__(self, plan: RunPlan, checks: Sequence[Check], emit: Emit) -> None:
        self._plan = plan
        self._checks = tuple(checks)
        self._emit = emit
        self._wanted = wanted_by(plan)
        self._asked: asyncio.Task[Survey] | None = None
        self._begun = 0.0

    async def __aenter__(self) -> "ChecksAtStart":
        if self._checks:
            self._asked = self._begin()
        return self

    def _begin(self) -> asyncio.Task[Survey]:
        self._begun = monotonic()
        return asyncio.create_task(self._ask())

    async def __aexit__(self, *_: object) -> None:
        if self._asked is not None:
            self._asked.cancel()
            await asyncio.gather(self._asked, return_exceptions=True)

    @property
    def judged(self) -> Collection[str]:
        """Names of the essentials that these checks judge."""
        judging = (check.id for check in self._checks if self._wanted.pythons or not check.id.startswith("python_env."))
        return [name for check in judging for name in JUDGED.get(check, ())]

    async def conclude_before_queue(self) -> None:
        """Raise ChecksFailedError for faults that no wait mends: a wrong working directory, a missing script.

        `conclude` asks again for facts that may change while the start waits.
        """
        if self._asked is None:
            return
        survey = await self._asked
        self._asked = None
        asked = (check for check in self._checks if check.at_start is AtStart.ASKED)
        lasting = [check for check in asked if check.id not in FREED_BY_OTHERS]
        _refuse(result(survey, lasting, suite.judge(survey, lasting), monotonic() - self._begun))

    async def conclude(self, prepared: PreparedNodes) -> tuple[Finding, ...]:
        """Wait for the answers, report the findings and return the warnings.

        Raises ChecksFailedError when a run would not work.
        """
        if not self._checks:
            return ()
        if self._asked is None:
            self._asked = self._begin()
        survey = with_reports(await self._asked, prepared)
        found = result(survey, self._checks, suite.judge(survey, self._checks), monotonic() - self._begun)
        for finding in found.findings:
            if finding.check == REACH:
                # The agent there is ready; only the connection of the probe failed.
                self._emit(replace(finding, severity=Severity.UNKNOWN))
            elif finding.severity in (Severity.WARN, Severity.UNKNOWN):
                self._emit(finding)
        _refuse(found)
        return tuple(each for each in found.findings if each.severity is Severity.WARN and each.check != REACH)

    async def _ask(self) -> Survey:
        # A silent host may delay a start by the probe no longer than by its agent.
        timeout_s = min(TIMEOUT_S, self._plan.job.start_timeout.total_seconds())
        asked = [check for check in self._checks if check.at_start is AtStart.ASKED]
        return await suite.take_survey(self._plan.cluster, self._wanted, asked, timeout_s)


def _refuse(found: Result) -> None:
    """Raise ChecksFailedError for failures, except that of a host which only the probe did not reach."""
    failed = [each for each in found.findings if each.severity is Severity.FAIL and each.check != REACH]
    if failed:
        raise ChecksFailedError(failed, len(found.hosts))


def with_reports(survey: Survey, prepared: PreparedNodes) -> Survey:
    """`survey` with what the agents reported, as the readings that the checks judge."""
    looks = {
        name: Look({**survey.looks[name].readings, **reported}, survey.looks[name].seconds)
        if name in survey.looks
        else Look(reported)
        for name, reported in ((name, _reported(survey, name, prepared)) for name in survey.cluster.names)
    }
    return replace(survey, looks=looks)


def _reported(survey: Survey, host: str, prepared: PreparedNodes) -> dict[str, Any]:
    readings: dict[str, Any] = {mesh.MATRIX: _connections(survey, host, prepared)}
    clock = prepared.clocks.get(host)
    if clock is not None:
        readings[mesh.OFFSET] = {"seconds": clock.seconds, "uncertainty": clock.uncertainty}
    if host in survey.wanted.pythons:
        readings |= _environment(prepared.essentials.get(host, {}), prepared.libraries.get(host, {}))
    return readings


def _connections(survey: Survey, host: str, prepared: PreparedNodes) -> object:
    """The reading of `network.ports`: each result as in the mesh test of `pylaunch check`."""
    ends = prepared.connections.get(host)
    if len(survey.cluster.hosts) < 2:
        ends = {}
    if ends is None:
        return Unmeasured("its agent did not try to connect to the others")
    row = {}
    for peer, end in ends.items():
        way, _, reason = end.partition(": ")
        row[peer] = {"ephemeral": {"end": way, "text": reason}}
    return {"ports": {}, "taken": None, "ephemeral_range": None, "row": row}


def _environment(essentials: Mapping[str, str], libraries: Mapping[str, str]) -> dict[str, Any]:
    digest, version = essentials.get("environment digest", ""), essentials.get("python", "")
    readings: dict[str, Any] = {"python_env.python": version} if version else {}
    if digest.startswith("unreadable"):
        readings["python_env.libraries"] = Unmeasured(digest)
    else:
        has_any = digest or libraries
        readings["python_env.libraries"] = {"digest": digest, "distributions": libraries} if has_any else None
    return readings


_ENVIRONMENT = "pylaunch provision --roles python_env --limit {hosts}"
_FIXES = {
    "environment digest": _ENVIRONMENT,
    "torch": _ENVIRONMENT,
    "nccl": _ENVIRONMENT,
    "gpu driver": "install the same driver on {hosts} and reboot",
    "kernel series": "boot {hosts} into the kernel of the others",
    GPU_MODELS: "all ranks wait for the slowest GPU; equal ones only: --limit",
    CONTAINER_IMAGE: "bring one image to all of them: pylaunch push IMAGE PATH, and podman load for a name",
}
_DRIFT = "what else differs: pylaunch check"


def compare_nodes(
    essentials: Mapping[str, Mapping[str, str]], *, judged_elsewhere: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return the differences between the `essentials` of nodes (host → name → value).

    Names of `judged_elsewhere` are left out, because a check reports them. Raises ClusterNotReadyError for images that
    differ: ranks in them would be different programs.
    """
    if images := _differences(essentials, [CONTAINER_IMAGE], Severity.FAIL):
        raise ClusterNotReadyError(
            "hosts differ in the image of their ranks, so no rank was started", evidence=all_lines(images)
        )
    with_gpus = {host: facts for host, facts in essentials.items() if GPU_MODELS in facts}
    left_out = {*judged_elsewhere, GPU_MODELS}
    names = dict.fromkeys(name for facts in essentials.values() for name in facts if name not in left_out)
    warned = _differences(essentials, names, Severity.WARN)
    return (*warned, *_differences(with_gpus, [GPU_MODELS], Severity.WARN))


def _differences(
    essentials: Mapping[str, Mapping[str, str]], names: Iterable[str], severity: Severity
) -> tuple[Finding, ...]:
    found = [
        each
        for name in names
        for each in odd_ones(
            Rule(ATTESTATION, severity, name, _FIXES.get(name, _DRIFT)),
            {host: facts.get(name, "") for host, facts in essentials.items()},
        )
    ]
    return tuple(replace(each, fix=each.fix.replace("{hosts}", fold(each.hosts))) for each in found)


def end_leftovers(plan: RunPlan, emit: Emit) -> None:
    """End processes on the hosts of `plan` that no live run owns. Raises ClusterNotReadyError for those that survive.

    Hosts that cannot be asked are skipped: the start reports them.
    """
    port = plan.job.rendezvous_port or USUAL_PORT
    views, _ = look(plan.cluster, port)
    found = {name: view.occupancy.stale for name, view in views.items() if view.occupancy.stale}
    if not found:
        return
    swept, silent = sweep(plan.cluster.only(found), port, found, dry_run=False)
    for name, why in silent.items():
        emit(notice(f"{name}: its leftovers are not known to have ended: {why.reason}"))
    for name, each in swept.items():
        for what in each.cleanup["left"]:
            emit(notice(f"{name}: could not remove {what}"))
        for process in each.cleanup["ended"]:
            emit(event(EventKind.LEFTOVER_ENDED, f"{name}: ended {process}, which no live run owned", name))
    stays = {name: left for name, each in swept.items() if (left := each.cleanup["survives"])}
    if stays:
        raise ClusterNotReadyError(
            f"processes on {fold(stays)} survive SIGKILL",
            evidence=[f"{name}: {process}" for name, processes in stays.items() for process in processes],
            hint="a process in state D waits in the kernel: see dmesg there, then reboot the host",
        )
