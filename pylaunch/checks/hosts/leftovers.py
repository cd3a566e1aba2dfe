"""Remains of earlier runs, and resources that live runs hold."""

from collections.abc import Iterable
from typing import Any

from pylaunch.agent.probe.readers.hosts import leftovers
from pylaunch.agent.probe.readers.hosts import leftovers as leftovers_readers
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import size

SHOWN = 5


def _stale(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(leftovers_readers.stale).items():
        for run in sorted({each["run"] for each in found}):
            members = [each for each in found if each["run"] == run]
            text = f"{_counted(len(members), 'process', 'processes')} of run {run}, whose agent is dead"
            evidence = tuple(f"pid {each['pid']}: {each['command']}" for each in members[:SHOWN])
            fix = "the next start on {hosts} ends them; now: " + f"pylaunch stop {run}"
            yield Finding("leftovers.stale_processes", Severity.WARN, (host,), text, fix, "", evidence)


def _leases(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(leftovers.held).items():
        for index, holder in found["devices"].items():
            text = f"device {index} is leased to {holder['words']}"
            fix = f"pylaunch stop {holder['run']}, or wait for its end" if holder["is_ours"] and holder["run"] else ""
            yield Finding("leftovers.leases", Severity.FAIL, (host,), text, fix)


def _shared_memory(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(leftovers_readers.shared_memory).items():
        if found["files"]:
            count = _counted(len(found["files"]), "file", "files")
            text = f"{count} in /dev/shm ({size(found['bytes'])} of memory) that no process has open any more"
            fix = quoted(("rm", *found["files"][:SHOWN])) + (" …" if len(found["files"]) > SHOWN else "")
            yield Finding("leftovers.shared_memory", Severity.WARN, (host,), text, fix)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _ask_leases(host: Host, wanted: Wanted) -> dict[str, Any]:
    devices = wanted.devices.get(host.name, ())
    return leftovers.held.ask({"root": host.node_root, "devices": list(devices), "ports": []}) if devices else {}


CHECKS = (
    Check(
        "leftovers.stale_processes",
        "processes of dead runs",
        "They keep devices, ports and memory, and write to the same files as the next run.",
        "no process with the mark of a run whose agent is dead",
        Severity.WARN,
        lambda host, wanted: leftovers_readers.stale.ask(host.node_root),
        _stale,
        at_start=AtStart.AGENT,
        at_start_why="the agent ends them while it prepares",
    ),
    Check(
        "leftovers.leases",
        "devices that another run holds",
        "Two runs on one device run out of memory, and both are slow.",
        "no lease on the devices that the run would use",
        Severity.FAIL,
        _ask_leases,
        _leases,
        at_start=AtStart.AGENT,
    ),
    Check(
        "leftovers.shared_memory",
        "shared memory that dead processes left",
        "Files in /dev/shm occupy memory until they are removed.",
        "no file of multiprocessing, PyTorch, NCCL or joblib older than 30 s that no process has open",
        Severity.WARN,
        asks(leftovers_readers.shared_memory),
        _shared_memory,
    ),
)
