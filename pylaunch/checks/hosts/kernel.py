"""Recent events in the kernel log."""

from collections.abc import Iterable

from pylaunch.agent.probe.readers.hosts import kernel as kernel_readers
from pylaunch.checks.check import Check, asks
from pylaunch.checks.survey import Survey
from pylaunch.model.diagnosis.finding import Finding, Severity

RECENT_S = 24 * 3600
"""Seconds. A process that ran out of memory this recently may run again; older events are only notes."""

_SEE_KILLS = "journalctl -k -g 'Out of memory'"


def _killed(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(kernel_readers.log).items():
        recent = [each for each in found["killed"]["last"] if each["age_s"] < RECENT_S]
        if recent:
            text = f"the kernel killed processes for memory, the last one {_ago(recent[-1]['age_s'])} ago"
            evidence = tuple(each["text"] for each in recent[-2:])
            yield Finding("kernel.memory_kills", Severity.WARN, (host,), text, _SEE_KILLS, "", evidence)
        elif found["oom_kills"]:
            text = f"the kernel has killed {found['oom_kills']} processes for memory since it was booted"
            yield Finding("kernel.memory_kills", Severity.NOTE, (host,), text, _SEE_KILLS)


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


CHECKS = (
    Check(
        "kernel.memory_kills",
        "processes killed for memory",
        "A rank killed for memory ends with SIGKILL and without a message; it usually happens again on the same host.",
        "the kernel log of the last 24 h; the kernel's count since boot is only noted",
        Severity.WARN,
        asks(kernel_readers.log),
        _killed,
    ),
)
