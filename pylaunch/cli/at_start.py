"""The checks that belong to a start: asked while the nodes are prepared, judged before any rank exists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic

from pylaunch.cli import console, findings
from pylaunch.launch.session import NodesRefusedError
from pylaunch.model.finding import Severity
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.preflight import suite
from pylaunch.preflight.check import Check
from pylaunch.preflight.result import REACH, Result, result
from pylaunch.preflight.selection import select
from pylaunch.preflight.wanted import wanted_by
from pylaunch.probe.ask import TIMEOUT_S
from pylaunch.transport.process import Together


def at_start_checks(*, skip: Sequence[str] = (), none: bool = False) -> tuple[Check, ...]:
    """The checks of a start without those of `skip`. Raises UsageError for names that there are not."""
    chosen = tuple(check for check in select(suite.CHECKS, skip=skip) if check.at_start)
    return () if none else chosen


class AtStart:
    """One preflight beside a start: begun on entering; what it still asks on leaving is no longer wanted."""

    def __init__(self, plan: RunPlan, checks: Sequence[Check]) -> None:
        self._plan = plan
        self._checks = tuple(checks)
        self._asked: Future[Result] | None = None
        self._together = Together()

    def __enter__(self) -> AtStart:
        if self._checks:
            thread = ThreadPoolExecutor(1, thread_name_prefix="checks")
            self._asked = thread.submit(self._ask)
            thread.shutdown(wait=False)
        return self

    def __exit__(self, *_: object) -> None:
        # This program does not end before the thread does, and that may wait for a host that never answers.
        self._together.end()

    async def conclude(self) -> None:
        """Wait for the answers and say what was found. Raises NodesRefusedError when a run would not work."""
        if self._asked is None:
            return
        found = await asyncio.wrap_future(self._asked)
        failed = [each for each in found.findings if each.severity is Severity.FAIL and each.check != REACH]
        for finding in found.findings:
            if finding.check == REACH:
                # The agent there is ready, so that only the second question did not get through.
                console.say(f"{findings.MARKS[Severity.UNKNOWN]}  {fold(finding.hosts)}: {finding.text}")
            elif finding.severity in (Severity.WARN, Severity.UNKNOWN):
                for line in findings.lines(finding):
                    console.say(line)
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

    def _ask(self) -> Result:
        begun = monotonic()
        # A host that does not answer must not keep a start waiting longer than it would wait for the agent.
        timeout_s = min(TIMEOUT_S, self._plan.job.start_timeout.total_seconds())
        survey = suite.take(
            self._plan.cluster, wanted_by(self._plan), self._checks, timeout_s=timeout_s, together=self._together
        )
        return result(survey, self._checks, suite.judge(survey, self._checks), monotonic() - begun)
