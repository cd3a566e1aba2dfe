"""The machine itself: memory, kernel, clock, and what provisioning left."""

from collections.abc import Iterable, Mapping
from typing import Any

from pylaunch.agent.probe.readers.hosts import host as host_readers
from pylaunch.agent.probe.readers.hosts import manifest
from pylaunch.checks import mesh
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, median, odd_ones
from pylaunch.model.text.quantity import size
from pylaunch.store.content import roles_directory

MEMORY_NEEDED = 256 << 20
"""Bytes per host that must be available: an import of torch alone takes a good part of it (our estimate)."""


def _memory(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(host_readers.memory)
    for host, each in found.items():
        if each["available"] < MEMORY_NEEDED:
            text = (
                f"{size(each['available'])} of {size(each['total'])} memory available, expected {size(MEMORY_NEEDED)}"
            )
            yield Finding("host.memory", Severity.FAIL, (host,), text, "ps aux --sort=-rss | head")


def _kernel_alike(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(host_readers.kernel)
    series = {host: ".".join(each["release"].split("-")[0].split(".")[:2]) for host, each in found.items()}
    yield from odd_ones(
        Rule("host.kernel", Severity.WARN, "kernel series", "boot {hosts} into the kernel of the others"), series
    )
    machines = {host: str(each["machine"]) for host, each in found.items()}
    yield from odd_ones(Rule("host.kernel", Severity.FAIL, "architecture"), machines)


CHECKS = (
    Check(
        "host.memory",
        "memory available",
        "Ranks that do not fit are killed by the kernel with SIGKILL, minutes into the run.",
        f"threshold: {size(MEMORY_NEEDED)} available",
        Severity.FAIL,
        asks(host_readers.memory),
        _memory,
        at_start=AtStart.ASKED,
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


def _asks(host: Host, wanted: Wanted) -> Mapping[str, Any]:
    return manifest.roles.ask({"env_root": host.env_root, "is_privileged": None, "sudo_password": None})


def _drift(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(manifest.roles).items():
        for name, entry in found.items():
            role = name.partition("/")[0]
            if not role.isidentifier() or not (roles_directory() / role).is_dir():
                continue  # It would be part of a command that is printed, for a person to run.
            fix = f"pylaunch provision --roles {role} --limit {{hosts}}"
            reported = entry["reported"]
            if isinstance(reported, str):
                text = f"{role}: only root can look: {reported}"
                yield Finding("roles.drift", Severity.NOTE, (host,), text)
                reported = []
            for text in (*(" ".join(each) for each in entry["differences"]), *reported):
                yield Finding("roles.drift", Severity.WARN, (host,), f"{role}: {text}", fix, role)


ROLE_CHECKS = (
    Check(
        "roles.drift",
        "what provisioning left",
        "A file, unit or setting that somebody changed since makes one host behave unlike the others.",
        "what each role recorded on the host; hosts that were not provisioned have no record",
        Severity.WARN,
        _asks,
        _drift,
    ),
)


WARN_S = 0.1
"""Above this offset, merged logs of several hosts are in the wrong order."""

FAIL_S = 5.0
"""torchelastic's rendezvous takes a node for dead whose heartbeat is three times five seconds old, by the reader's own
clock (torch 2.13, dynamic_rendezvous.py, keep_alive_interval); certificates and object stores refuse not much later."""

TIME_SYNC = "pylaunch provision --roles time_sync"


def _offset(survey: Survey) -> Iterable[Finding]:
    measured = survey.measured(mesh.OFFSET)
    if len(measured) < 2:
        return
    # Include the controller's clock: two hosts alone do not show which one is wrong.
    usual = median([0.0, *(found["seconds"] for found in measured.values())])
    for host, found in measured.items():
        away, uncertainty = found["seconds"] - usual, found["uncertainty"]
        surely = abs(away) - uncertainty
        side = "ahead of" if away > 0 else "behind"
        text = f"its clock is {_seconds(away)} {side} the others, ± {_seconds(uncertainty)}"
        if surely > FAIL_S:
            yield Finding("time.offset", Severity.FAIL, (host,), text, fix=TIME_SYNC, role="time_sync")
        elif surely > WARN_S:
            yield Finding("time.offset", Severity.WARN, (host,), text, fix=TIME_SYNC, role="time_sync")
        elif uncertainty > WARN_S:
            yield Finding(
                "time.offset", Severity.UNKNOWN, (host,),
                f"its clock is within {_seconds(abs(away) + uncertainty)} of the others: the connection is too slow to "
                "say more",
            )  # fmt: skip


def _seconds(seconds: float) -> str:
    amount = abs(seconds)
    return f"{amount:.1f} s" if amount >= 1 else f"{amount * 1000:.1f} ms"


CLOCK_CHECKS = (
    Check(
        "time.offset", "clocks agree",
        "Logs are ordered and causes found by time, and rendezvous declares nodes dead by it.",
        f"median of all hosts and the controller; thresholds: {WARN_S * 1000:g} ms and {FAIL_S:g} s, uncertainty apart",
        Severity.FAIL, asks(mesh.OFFSET), _offset,
        at_start=AtStart.REPORTED,
    ),
)  # fmt: skip
