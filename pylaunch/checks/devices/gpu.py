"""GPUs of a run: present, equal on all hosts, and with matching driver and libraries."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pylaunch.agent.probe.readers.devices import gpu as gpu_readers
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import Survey
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones

MISMATCH = "Driver/library version mismatch"
"""Error of NVML when the libraries were upgraded and the kernel module was not."""


def cards_of(survey: Survey) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return every device that nvidia-smi lists, with its host."""
    for host, found in survey.measured(gpu_readers.management).items():
        for card in found["cards"] if found is not None else ():
            yield host, card


def wanted_devices(survey: Survey, host: str) -> tuple[int, ...]:
    """Return the devices of a run on `host`: those of the plan, else all of the inventory."""
    return tuple(survey.wanted.devices.get(host) or survey.cluster[host].devices)


def _count(survey: Survey) -> Iterator[Finding]:
    smi = survey.measured(gpu_readers.management)
    for host, found in survey.measured(gpu_readers.host).items():
        listed = smi.get(host)
        complains = listed is not None and listed["complaint"] is not None
        on_bus = found["gpus"] if found is not None else 0
        seen = len(listed["cards"]) if listed is not None and not complains else on_bus
        last = max(wanted_devices(survey, host), default=-1)
        if last >= seen:
            there = f"{seen} of {on_bus} GPUs on the PCI bus answer" if on_bus > seen else f"{seen} GPUs are there"
            job = survey.cluster[host].slurm_job
            giver = "the inventory" if job is None else f"Slurm job {job}"
            correct = "correct gpus= or devices= in the inventory if it is wrong" if job is None else "sinfo -o '%N %G'"
            text = f"{there}, and {giver} gives device {last} to runs"
            fix = f"sudo dmesg | grep -i -e xid -e nvrm; {correct}"
            yield Finding("gpu.count", Severity.FAIL, (host,), text, fix)
        elif on_bus > seen and not complains:
            text = f"{seen} of {on_bus} GPUs on the PCI bus answer nvidia-smi"
            yield Finding("gpu.count", Severity.WARN, (host,), text, fix="sudo dmesg | grep -i -e xid -e nvrm")


def _software(survey: Survey) -> Iterator[Finding]:
    for host, found in survey.measured(gpu_readers.management).items():
        complaint = found["complaint"] if found is not None else None
        if complaint is not None:
            fix = "sudo reboot" if MISMATCH in complaint else "nvidia-smi; sudo dmesg | grep -i nvrm"
            why = ": the driver was upgraded and the old module is still loaded" if MISMATCH in complaint else ""
            yield Finding(
                "gpu.software", Severity.FAIL, (host,), f"nvidia-smi fails{why}", fix, "gpu_node", evidence=(complaint,)
            )
    for host, devices in survey.measured(gpu_readers.host).items():
        if devices is not None and devices["driver"] is None and devices["gpus"]:
            text = f"{devices['gpus']} GPUs are there and no driver is loaded"
            yield Finding("gpu.software", Severity.FAIL, (host,), text, fix="sudo modprobe nvidia; sudo dmesg | tail")
    yield from _odd(survey, "gpu.software", "driver", lambda found: found["driver"], Severity.FAIL)
    yield from _odd(survey, "gpu.software", "CUDA of the driver", lambda found: found["cuda"], Severity.WARN)


def _alike(survey: Survey) -> Iterator[Finding]:
    def models(found: Mapping[str, Any]) -> str | None:
        names = [card["name"] or "unknown" for card in found["cards"]]
        return ", ".join(f"{names.count(name)} x {name}" for name in sorted(set(names))) or None

    yield from _odd(survey, "gpu.models", "models", models, Severity.WARN)


def _odd(
    survey: Survey, check: str, what: str, fact: Callable[[Mapping[str, Any]], str | None], severity: Severity
) -> Iterator[Finding]:
    """Return findings for hosts whose `fact` differs from the majority; hosts without GPUs are not compared."""
    answers = {
        host: value
        for host, found in survey.measured(gpu_readers.management).items()
        if found is not None and found["complaint"] is None and (value := fact(found)) is not None
    }
    yield from odd_ones(Rule(check, severity, what, "pylaunch check --only gpu", "gpu_node"), answers)


def _fabric(survey: Survey) -> Iterator[Finding]:
    for host, card in cards_of(survey):
        state, status = card["fabric_state"], card["fabric_status"]
        if state is not None and (state != "Completed" or status not in (None, "Success")):
            text = f"GPU {card['index']}: fabric {state}" + (f", {status}" if status else "") + ", expected Completed"
            fix = "sudo systemctl restart nvidia-fabricmanager, of the driver's version; then systemctl status"
            yield Finding("gpu.fabric", Severity.FAIL, (host,), text, fix, "gpu_node")


def _settings(survey: Survey) -> Iterator[Finding]:
    for host, found in survey.measured(gpu_readers.management).items():
        cards = found["cards"] if found is not None else []
        if off := [card["index"] for card in cards if card["persistence"] == "Disabled"]:
            text = f"persistence mode is off on {indexes(off)}: each first call takes seconds"
            fix = "sudo nvidia-smi -pm 1"
            yield Finding("gpu.settings", Severity.WARN, (host,), text, fix, "gpu_node")
        for mode in sorted({card["compute_mode"] or "Default" for card in cards} - {"Default"}):
            which = [card["index"] for card in cards if card["compute_mode"] == mode]
            severity = Severity.FAIL if mode == "Prohibited" else Severity.WARN
            text = f"compute mode is {mode} on {indexes(which)}"
            yield Finding("gpu.settings", severity, (host,), text, fix="sudo nvidia-smi -c DEFAULT")
        split = [card["index"] for card in cards if card["mig"] == "Enabled"]
        if split and len(split) < len(cards):
            text = f"MIG is on on {indexes(split)} and off on the others: device numbers do not mean what they say"
            yield Finding("gpu.settings", Severity.FAIL, (host,), text, fix="sudo nvidia-smi -mig 0")


def indexes(which: list[int]) -> str:
    """Return "GPU 3" or "GPUs 0, 3"."""
    return f"GPU{'s' if len(which) > 1 else ''} {', '.join(map(str, which))}"


CHECKS = (
    Check(
        "gpu.count",
        "GPUs that the inventory lists",
        "A rank without its device fails at once, and so does the run.",
        "the inventory's gpus= or devices=",
        Severity.FAIL,
        asks(gpu_readers.host, gpu_readers.management),
        _count,
        at_start=AtStart.AGENT,
        at_start_why="by NVML; --skip omits it",
        refusals=("gpu-missing",),
    ),
    Check(
        "gpu.software",
        "driver and its libraries",
        "CUDA does not start if libraries and loaded module have different versions; hosts with other "
        "drivers behave differently.",
        "versions on a host with each other, and with the majority of hosts",
        Severity.FAIL,
        asks(gpu_readers.host, gpu_readers.management),
        _software,
        at_start=AtStart.AGENT,
        at_start_why="refuses a driver that is not loaded or does not answer; versions that differ are printed",
        refusals=("gpu-silent",),
    ),
    Check(
        "gpu.models",
        "number and models of GPUs",
        "All ranks wait for the slowest model, and for the smallest memory.",
        "the majority",
        Severity.WARN,
        asks(gpu_readers.management),
        _alike,
        at_start_why="the agents report models and memory, and a difference is printed",
    ),
    Check(
        "gpu.fabric",
        "fabric manager of NVSwitch machines",
        "Without it, or with another version, no CUDA program starts (error 802).",
        "the state that each GPU reports, where it has NVSwitch of its own generation (H100 and later)",
        Severity.FAIL,
        asks(gpu_readers.management),
        _fabric,
    ),
    Check(
        "gpu.settings",
        "persistence, compute mode, MIG",
        "A GPU in another mode, divided by MIG or without persistence does not behave as planned.",
        "what training needs: persistence on, compute mode Default, MIG alike on all",
        Severity.FAIL,
        asks(gpu_readers.management),
        _settings,
        at_start=AtStart.AGENT,
        at_start_why="refuses compute mode Prohibited, and MIG without the name of an instance",
        refusals=("gpu-mode",),
    ),
)
