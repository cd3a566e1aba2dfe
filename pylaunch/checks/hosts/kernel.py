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


def _hung(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(kernel_readers.log).items():
        kinds = ((found["hung"], "processes or processors that hang"), (found["storage"], "errors of a disk"))
        for lines, what in kinds:
            recent = [each for each in lines["last"] if each["age_s"] < RECENT_S]
            if recent:
                text = f"the kernel reports {what}, the last {_ago(recent[-1]['age_s'])} ago"
                evidence = tuple(each["text"] for each in recent[-2:])
                yield Finding("kernel.complaints", Severity.WARN, (host,), text, "journalctl -k -b", "", evidence)


def _stuck(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(kernel_readers.stuck).items():
        if found:
            text = f"{len(found)} processes in uninterruptible sleep that nothing wakes, expected none"
            evidence = tuple(
                f"pid {each['pid']} ({each['command']})" + (f" in {each['waits_in']}" if each["waits_in"] else "")
                for each in found[:5]
            )
            fix = "see what they wait for: cat /proc/PID/stack; a file system that hangs, or a driver"
            yield Finding("kernel.stuck", Severity.WARN, (host,), text, fix, "", evidence)


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
    Check(
        "kernel.complaints",
        "hung tasks, stalled processors and disk errors",
        "A hung task or broken device stops a run sooner or later, and looks like a hang of the framework.",
        "the kernel log of the last 24 h",
        Severity.WARN,
        asks(kernel_readers.log),
        _hung,
    ),
    Check(
        "kernel.stuck",
        "processes stuck in the kernel",
        "They wait for storage or a driver that does not answer; a rank that uses the same hangs too.",
        "in uninterruptible sleep at both ends of one second, without a context switch in between",
        Severity.WARN,
        asks(kernel_readers.stuck),
        _stuck,
    ),
)
