"""The checks that belong to a start: asked while the nodes are prepared, judged before any rank exists."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from time import monotonic
from typing import Any

from pylaunch.cli import console
from pylaunch.cli.views import findings
from pylaunch.launch.start.session import NodesRefusedError, PreparedNodes
from pylaunch.model.cluster import Agreement
from pylaunch.model.finding import Severity
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.preflight import mesh, suite
from pylaunch.preflight.check import Check
from pylaunch.preflight.result import REACH, Result, result
from pylaunch.preflight.selection import select
from pylaunch.preflight.start_table import AtStart, at_start, decides_before_queue
from pylaunch.preflight.survey import Look, Survey, Unmeasured
from pylaunch.preflight.wanted import wanted_by
from pylaunch.probe.ask import TIMEOUT_S
from pylaunch.transport.process import Together

JUDGED = {"python_env.libraries": ("environment digest", "torch", "nccl"), "python_env.python": ("python",)}
"""Check → names of the essentials that it judges at a start."""


def at_start_checks(*, skip: Sequence[str] = (), none: bool = False) -> tuple[Check, ...]:
    """The checks of a start without those of `skip`. Raises UsageError for names that there are not."""
    chosen = tuple(
        check for check in select(suite.CHECKS, skip=skip) if at_start(check) in (AtStart.ASKED, AtStart.REPORTED)
    )
    return () if none else chosen


class ChecksAtStart:
    """One preflight beside a start: begun on entering; what it still asks on leaving is no longer wanted."""

    def __init__(self, plan: RunPlan, checks: Sequence[Check]) -> None:
        self._plan = plan
        self._checks = tuple(checks)
        self._wanted = wanted_by(plan)
        self._asked: Future[Survey] | None = None
        self._begun = 0.0
        self._together = Together()

    def __enter__(self) -> ChecksAtStart:
        if self._checks:
            self._asked = self._begin()
        return self

    def _begin(self) -> Future[Survey]:
        self._begun = monotonic()
        thread = ThreadPoolExecutor(1, thread_name_prefix="checks")
        asked = thread.submit(self._ask)
        thread.shutdown(wait=False)
        return asked

    def __exit__(self, *_: object) -> None:
        # This program does not end before the thread does, and that may wait for a host that never answers.
        self._together.end()

    @property
    def judged(self) -> Collection[str]:
        """Names of the essentials that these checks judge."""
        if not self._wanted.pythons:
            return ()
        return [name for check in self._checks for name in JUDGED.get(check.id, ())]

    async def conclude_before_queue(self) -> None:
        """Raises NodesRefusedError for what no wait mends: a wrong working directory, a script that is not there.

        What may change while the start waits is asked again by `conclude`.
        """
        if self._asked is None:
            return
        survey = await asyncio.wrap_future(self._asked)
        self._asked = None
        lasting = [check for check in self._checks if decides_before_queue(check)]
        found = result(survey, lasting, suite.judge(survey, lasting), monotonic() - self._begun)
        _refuse(found)

    async def conclude(self, prepared: PreparedNodes) -> None:
        """Wait for the answers and print what was found. Raises NodesRefusedError when a run would not work."""
        if not self._checks:
            return
        survey = with_reports(await asyncio.wrap_future(self._asked or self._begin()), prepared)
        found = result(survey, self._checks, suite.judge(survey, self._checks), monotonic() - self._begun)
        for finding in found.findings:
            if finding.check == REACH:
                # The agent there is ready, so that only the second question did not get through.
                console.say(f"{findings.MARKS[Severity.UNKNOWN]}  {fold(finding.hosts)}: {finding.text}")
            elif finding.severity in (Severity.WARN, Severity.UNKNOWN):
                for line in findings.lines(finding):
                    console.say(line)
        _refuse(found)

    def _ask(self) -> Survey:
        # A host that does not answer must not keep a start waiting longer than it would wait for the agent.
        timeout_s = min(TIMEOUT_S, self._plan.job.start_timeout.total_seconds())
        asked = [check for check in self._checks if at_start(check) is AtStart.ASKED]
        return suite.take(self._plan.cluster, self._wanted, asked, timeout_s=timeout_s, together=self._together)


def _refuse(found: Result) -> None:
    """Raises NodesRefusedError for what failed; a host that the probe alone did not reach is not refused."""
    failed = [each for each in found.findings if each.severity is Severity.FAIL and each.check != REACH]
    if failed:
        reasons: dict[str, tuple[str, ...]] = {}
        for finding in failed:
            reasons |= {host: (*reasons.get(host, ()), finding.text) for host in finding.hosts}
        raise NodesRefusedError(
            f"checks failed on {len(reasons)} of {len(found.hosts)} hosts, so no rank was started",
            reasons,
            evidence=findings.all_lines(failed),
            hint=f"mend it, or start all the same: --skip {','.join(dict.fromkeys(each.check for each in failed))}",
        )


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
    if host in survey.wanted.pythons and survey.cluster[host].attestation is not Agreement.OFF:
        readings |= _environment(prepared.essentials.get(host, {}), prepared.libraries.get(host, {}))
    return readings


def _connections(survey: Survey, host: str, prepared: PreparedNodes) -> object:
    """The reading of `network.ports`: each end as the conversation of `pylaunch check` writes it."""
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
    readings: dict[str, Any] = {"python_env.python": {"version": version}} if version else {}
    if digest.startswith("unreadable"):
        readings["python_env.libraries"] = Unmeasured(digest)
    else:
        has_any = digest or libraries
        readings["python_env.libraries"] = {"digest": digest, "distributions": libraries} if has_any else None
    return readings
