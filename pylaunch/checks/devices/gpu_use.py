"""Use of the GPUs: free for a run, and compatible with the installed software."""

from collections.abc import Iterator, Mapping
from typing import Any

from pylaunch.agent.probe.readers.devices import gpu as gpu_readers
from pylaunch.agent.probe.readers.hosts import occupants as occupants_readers
from pylaunch.checks.check import AtStart, Check
from pylaunch.checks.devices.gpu import wanted_devices
from pylaunch.checks.hosts.leftovers import ask_occupants
from pylaunch.checks.occupancy.look import Occupant, occupancy
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity

LEFTOVER_MIB = 1024
"""Memory in use that belongs to no process. The driver's own part is reported as reserved; closed contexts are freed
within seconds."""


def _occupied(survey: Survey) -> Iterator[Finding]:
    reading = survey.measured(occupants_readers.occupants)
    for host, smi in survey.measured(gpu_readers.management).items():
        if smi is None:
            continue
        seen = occupancy(reading[host]) if host in reading else None
        occupants = () if seen is None else (*seen.stale, *seen.at_work, *seen.foreign)
        known: dict[int | None, Occupant] = {each.pid: each for each in occupants}
        stale = set() if seen is None else {each.pid for each in seen.stale}
        for card in smi["cards"]:
            if wanted_devices(survey, host) and card["index"] not in wanted_devices(survey, host):
                continue
            computing = [each for each in card["processes"] if "C" in (each["type"] or "")]
            for process in computing:
                occupant = known.get(process["pid"])
                if occupant is None or occupant.run is None:
                    yield _holder(host, card["index"], process, occupant, is_stale=process["pid"] in stale)
            used = card["memory_used_mib"] or 0
            if not card["processes"] and used > LEFTOVER_MIB and card["mig"] != "Enabled":
                text = f"GPU {card['index']}: {used} MiB are in use and no process is seen that has them"
                fix = f"sudo fuser -v /dev/nvidia*; then sudo nvidia-smi --gpu-reset -i {card['index']}"
                yield Finding("gpu.free", Severity.WARN, (host,), text, fix)


def _holder(host: str, index: int, process: Mapping[str, Any], occupant: Occupant | None, *, is_stale: bool) -> Finding:
    memory = "" if process["memory_mib"] is None else f" {process['memory_mib']} MiB of"
    inside = f" in {process['container'][:200]}" if process.get("container") else ""
    who = str(occupant) if occupant is not None else f"pid {process['pid']} ({process['name']}){inside}"
    text = f"{who} has{memory} GPU {index}"
    if is_stale:
        text += ", and nobody runs it any more"
    fix = f"pylaunch clean --yes --limit {host}" if is_stale else "wait for it, or ask whoever it belongs to"
    return Finding("gpu.free", Severity.FAIL, (host,), text, fix)


def _cuda(survey: Survey) -> Iterator[Finding]:
    """Return whether a driver runs programs of a CUDA version: its own major version and earlier ones."""
    for host, needed in survey.measured(gpu_readers.cuda).items():
        smi = survey.measured(gpu_readers.management).get(host)
        if smi is None or smi["cuda"] is None or needed is None:
            continue
        if needed["cuda"] > int(smi["cuda"].split(".")[0]):
            text = f"{needed['package']} is for CUDA {needed['cuda']}, and driver {smi['driver']} knows {smi['cuda']}"
            fix = "install a newer driver, or lock an environment made for the driver's CUDA"
            yield Finding("gpu.cuda", Severity.FAIL, (host,), text, fix)


def _pythons(host: Host, wanted: Wanted) -> Mapping[str, Any]:
    python = wanted.pythons.get(host.name, host.rank_python)
    return {**gpu_readers.cuda.ask({"python": python}), **gpu_readers.management.ask(None)}


CHECKS = (
    Check(
        "gpu.free",
        "no other process on the GPUs",
        "A rank that shares its GPU runs out of memory or is slow, and all ranks wait for it.",
        f"no process that computes; {LEFTOVER_MIB} MiB in use by nobody",
        Severity.FAIL,
        lambda host, wanted: {**gpu_readers.management.ask(None), **ask_occupants(host, wanted)},
        _occupied,
        at_start=AtStart.AGENT,
        at_start_why="processes that hold memory; devices of other runs are leased",
        refusals=("gpu-busy",),
    ),
    Check(
        "gpu.cuda",
        "CUDA of torch or JAX and of the driver",
        "A driver that is older than the CUDA of the environment cannot run it.",
        "major version; within one, older drivers run newer programs (CUDA minor version compatibility)",
        Severity.FAIL,
        _pythons,
        _cuda,
        at_start=AtStart.AGENT,
        at_start_why="compares torch or JAX of the interpreter with the driver",
        refusals=("gpu-cuda",),
    ),
)
