"""The machine itself: memory, processors, kernel."""

from collections.abc import Iterable

from pylaunch.agent.probe.readers.hosts import host as host_readers
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import Survey
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones
from pylaunch.model.text.size import size

MEMORY_NEEDED = 256 << 20
"""Bytes per host that must be available: an import of torch alone takes a good part of it (our estimate)."""

MEMORY_TOLERANCE = 0.05
"""Share by which the memory of hosts may differ: firmware reserves some (Azure's node checks use 5 %)."""

SWAPPED_SHARE = 0.1
"""Share of the memory in swap from which a finding is reported."""


def _memory(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(host_readers.memory)
    for host, each in found.items():
        if each["available"] < MEMORY_NEEDED:
            text = (
                f"{size(each['available'])} of {size(each['total'])} memory available, expected {size(MEMORY_NEEDED)}"
            )
            yield Finding("host.memory", Severity.FAIL, (host,), text, "ps aux --sort=-rss | head")
        if each["swap_used"] > SWAPPED_SHARE * each["total"]:
            text = f"{size(each['swap_used'])} lie in swap: ranks that touch them wait for the disk"
            yield Finding("host.memory", Severity.WARN, (host,), text, "swapoff -a && swapon -a")


def _memory_alike(survey: Survey) -> Iterable[Finding]:
    totals = {host: each["total"] for host, each in survey.measured(host_readers.memory).items()}
    if not totals:
        return
    middle = sorted(totals.values())[len(totals) // 2]
    for host, total in totals.items():
        if abs(total - middle) > MEMORY_TOLERANCE * middle:
            text = f"{size(total)} of memory, most hosts have {size(middle)}"
            yield Finding("host.memory_uniform", Severity.WARN, (host,), text, "dmidecode --type memory")


def _processors_alike(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(host_readers.processors)
    for what, values in (
        ("processors", {host: str(each["count"]) for host, each in found.items()}),
        ("memory nodes (NUMA)", {host: str(each["memory_nodes"]) for host, each in found.items()}),
        ("NUMA balancing", {host: _switch(each["balancing"]) for host, each in found.items()}),
        ("frequency governor", {host: ", ".join(each["governors"]) for host, each in found.items()}),
    ):
        yield from odd_ones(Rule("host.processors_uniform", Severity.WARN, what), values)


def _switch(value: str | None) -> str:
    return {"0": "off", "1": "on"}.get(value or "", value or "")


def _kernel_alike(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(host_readers.kernel)
    series = {host: ".".join(each["release"].split("-")[0].split(".")[:2]) for host, each in found.items()}
    yield from odd_ones(Rule("host.kernel", Severity.WARN, "kernel series", "uname -r"), series)
    machines = {host: str(each["machine"]) for host, each in found.items()}
    yield from odd_ones(Rule("host.kernel", Severity.FAIL, "architecture"), machines)


CHECKS = (
    Check(
        "host.memory",
        "memory available",
        "Ranks that do not fit are killed by the kernel with SIGKILL, minutes into the run.",
        f"threshold: {size(MEMORY_NEEDED)} available; at most {SWAPPED_SHARE:.0%} of the memory swapped out",
        Severity.FAIL,
        asks(host_readers.memory),
        _memory,
        at_start=AtStart.ASKED,
    ),
    Check(
        "host.memory_uniform",
        "as much memory on every host",
        "The host with less memory runs out first; missing memory is usually a failed module.",
        f"the host in the middle, within {MEMORY_TOLERANCE:.0%} (Azure's node health checks use the same)",
        Severity.WARN,
        asks(host_readers.memory),
        _memory_alike,
    ),
    Check(
        "host.processors_uniform",
        "the same processors on every host",
        "All ranks wait for the slowest: one host with fewer processors or another memory layout sets the pace.",
        "the majority",
        Severity.WARN,
        asks(host_readers.processors),
        _processors_alike,
    ),
    Check(
        "host.kernel",
        "the same kernel and architecture on every host",
        "Drivers, cgroups and network stacks change with the kernel; a host that missed a reboot behaves differently.",
        "the majority: series (first two numbers) and architecture",
        Severity.FAIL,
        asks(host_readers.kernel),
        _kernel_alike,
        at_start=AtStart.ASKED,
    ),
)
