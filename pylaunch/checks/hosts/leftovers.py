"""Processes that nobody runs any more, and devices that live runs hold."""

from collections.abc import Iterable, Mapping
from typing import Any

from pylaunch.agent.probe.readers.hosts import occupants
from pylaunch.checks.check import AtStart, Check
from pylaunch.checks.occupancy.look import Occupant, occupancy
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.text.argv import pylaunch

SHOWN = 5


def ask_occupants(host: Host, wanted: Wanted) -> Mapping[str, Any]:
    """Ask for the processes that hold a device or the rendezvous port, are ranks, or belong to a run."""
    return occupants.occupants.ask({"ports": [] if wanted.port is None else [wanted.port]})


def _stale(survey: Survey) -> Iterable[Finding]:
    for host, reading in survey.measured(occupants.occupants).items():
        of_runs: dict[str, list[Occupant]] = {}
        for each in occupancy(reading).stale:
            if each.run is not None:
                of_runs.setdefault(each.run, []).append(each)
            elif each.ports or (each.is_rank and not each.devices):  # gpu.free reports those with a device.
                severity = Severity.FAIL if each.ports else Severity.WARN
                text = f"{each} is left over: whoever started it is gone; it {each.uses}"
                yield Finding("leftovers.processes", severity, (host,), text, f"pylaunch clean --yes --limit {host}")
        for run, members in of_runs.items():
            text = f"{len(members)} process{'es' * (len(members) > 1)} of run {run}, whose agent is dead"
            fix = f"the next start on {{hosts}} ends them; now: {pylaunch('stop', run)}"
            shown = tuple(map(str, members[:SHOWN]))
            yield Finding("leftovers.processes", Severity.WARN, (host,), text, fix, evidence=shown)


def _leases(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(occupants.held).items():
        for index, holder in found["devices"].items():
            text = f"device {index} is leased to {holder['words']}"
            run = holder["run"] if holder["is_ours"] else ""
            fix = f"{pylaunch('stop', run)}, or wait for its end" if run else ""
            yield Finding("leftovers.leases", Severity.FAIL, (host,), text, fix)


def _ask_leases(host: Host, wanted: Wanted) -> dict[str, Any]:
    devices = wanted.devices.get(host.name, ())
    return occupants.held.ask({"root": host.node_root, "devices": list(devices), "ports": []}) if devices else {}


CHECKS = (
    Check(
        "leftovers.processes",
        "processes of dead runs and launchers",
        "They keep the port, the devices, the memory and the cores that the next run needs.",
        "the ancestors of each process that is a rank, belongs to a run, or holds a device or the rendezvous port",
        Severity.FAIL,
        ask_occupants,
        _stale,
        at_start=AtStart.AGENT,
        at_start_why="the agent ends those of dead runs, and refuses one that holds the port or a GPU",
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
)
