"""Health of the GPUs: memory, errors since boot, links, clocks."""

from collections import Counter
from collections.abc import Iterator

from pylaunch.agent.probe.readers.devices import gpu as gpu_readers
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.devices.gpu import cards_of
from pylaunch.checks.survey import Survey
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.verdict.causes.xid import Action, XidKind, explain

RESET = "end what uses it (pylaunch clean), then sudo nvidia-smi --gpu-reset -i {index}"

SLOW = {
    "hw_thermal_slowdown": "the hardware slows it down because it is too hot",
    "sw_thermal_slowdown": "the driver slows it down because it is too hot",
    "hw_power_brake_slowdown": "the power supply asks it to slow down",
    "hw_slowdown": "the hardware slows it down (heat, power brake or a voltage drop)",
}
"""Reasons for low clocks that indicate a fault, unlike idle, power cap and application clocks."""


def _memory(survey: Survey) -> Iterator[Finding]:
    for host, card in cards_of(survey):
        index, reset = card["index"], RESET.format(index=card["index"])
        if card["ecc_uncorrectable"]:
            text = f"GPU {index}: {card['ecc_uncorrectable']} uncorrectable ECC errors since the driver was loaded"
            yield Finding("gpu.memory", Severity.FAIL, (host,), text, reset)
        if card["remap_failure"] == "Yes":
            text = f"GPU {index}: a bad memory row could not be remapped: exchange the GPU"
            yield Finding("gpu.memory", Severity.FAIL, (host,), text, "take the host out: --limit '!" + host + "'")
        elif card["remap_pending"] == "Yes":
            text = f"GPU {index}: a bad memory row is remapped at the next reset, and in use until then"
            yield Finding("gpu.memory", Severity.WARN, (host,), text, reset)
        if card["recovery"] not in (None, "None"):
            text = f"GPU {index}: the driver asks for an action: {card['recovery']}"
            yield Finding("gpu.memory", Severity.FAIL, (host,), text, reset)


def _xids(survey: Survey) -> Iterator[Finding]:
    smi = survey.measured(gpu_readers.management)
    for host, found in survey.measured(gpu_readers.kernel_errors).items():
        if found is None:
            continue
        cards = (smi.get(host) or {"cards": []})["cards"]
        recovered = {_bus(card["bus"]) for card in cards if card["recovery"] == "None"}
        names = {_bus(card["bus"]): f"GPU {card['index']}" for card in cards}
        counted = Counter((_bus(each["bus"]), each["code"]) for each in found["xids"])
        last = {(_bus(each["bus"]), each["code"]): each for each in found["xids"]}
        for (bus, code), times in counted.items():
            known = explain(code)
            severity = {XidKind.DAMAGED: Severity.FAIL, XidKind.SUSPECT: Severity.WARN, XidKind.PROGRAM: Severity.NOTE}[
                known.kind
            ]
            if severity is Severity.FAIL and bus in recovered and known.action is not Action.REBOOT:
                severity = Severity.WARN  # The driver reports that no action is needed.
            hours = max(0.0, found["uptime_s"] - last[bus, code]["at"]) / 3600
            often = f", {times} times, the last" if times > 1 else ""
            yield Finding(
                "gpu.xid",
                severity,
                (host,),
                f"{names.get(bus, bus)}: Xid {code} ({known.name}){often} {hours:.1f} h ago. {known.meaning}",
                fix={
                    Action.RESET: "end what uses it (pylaunch clean), then sudo nvidia-smi --gpu-reset",
                    Action.REBOOT: "sudo reboot; exchange the GPU if it comes again",
                    Action.LINKS: "nvidia-smi nvlink --errorcounters; sudo nvidia-smi --gpu-reset of all GPUs together",
                    Action.APPLICATION: "start the job again; CUDA_LAUNCH_BLOCKING=1 names the call if it comes again",
                    Action.NOTHING: "",
                }[known.action],
                evidence=(f"NVRM: Xid (PCI:{last[bus, code]['bus']}): {code}, {last[bus, code]['text']}",),
            )


def _bus(address: str) -> str:
    """Return one spelling for "0000:3B:00", "00000000:3b:00.0" and "0000:3b:00.0"."""
    domain, _, rest = (
        address.lower().rpartition(".")[0].partition(":") if "." in address else address.lower().partition(":")
    )
    return f"{domain[-4:]}:{rest}"


def _nvlink(survey: Survey) -> Iterator[Finding]:
    links = {host: found for host, found in survey.measured(gpu_readers.links).items() if found}
    models = {(host, str(card["index"])): card["name"] for host, card in cards_of(survey)}
    up: dict[str | None, list[int]] = {}
    for host, found in links.items():
        for device, each in found.items():
            up.setdefault(models.get((host, device)), []).append(len(each["up"]))
    usual = {model: Counter(counts).most_common(1)[0][0] for model, counts in up.items()}
    for host, found in links.items():
        for device, each in found.items():
            expected = usual[models.get((host, device))]
            if len(each["up"]) < expected:
                down = f" (down: {', '.join(map(str, each['down']))})" if each["down"] else ""
                text = f"GPU {device}: {len(each['up'])} NVLinks are up{down}, its like have {expected}"
                fix = "sudo nvidia-smi --gpu-reset; with NVSwitches: sudo systemctl restart nvidia-fabricmanager"
                yield Finding("gpu.nvlink", Severity.FAIL, (host,), text, fix)


def _clocks(survey: Survey) -> Iterator[Finding]:
    for host, card in cards_of(survey):
        for reason in card["throttled"]:
            if reason in SLOW and not (reason == "hw_slowdown" and len(set(card["throttled"]) & set(SLOW)) > 1):
                degrees = "" if card["temperature_c"] is None else f", at {card['temperature_c']} °C"
                text = f"GPU {card['index']}: {SLOW[reason]}{degrees}: all ranks wait for it"
                yield Finding("gpu.clocks", Severity.WARN, (host,), text, "look at fans, air and power of this machine")


CHECKS = (
    Check(
        "gpu.memory",
        "memory errors of the GPUs",
        "Uncorrectable memory errors crash the run or make it compute wrong numbers.",
        "none; remapping as the card reports it",
        Severity.FAIL,
        asks(gpu_readers.management),
        _memory,
        at_start=AtStart.AGENT,
        at_start_why="refuses memory that waits for a reset, a failed replacement, and uncorrected errors",
        refusals=("gpu-fault",),
    ),
    Check(
        "gpu.xid",
        "errors of the GPUs since boot",
        "A GPU that failed once and was not reset fails again, hours into the run.",
        "NVIDIA's Xid catalog (pylaunch help xid)",
        Severity.FAIL,
        asks(gpu_readers.kernel_errors, gpu_readers.management),
        _xids,
    ),
    Check(
        "gpu.nvlink",
        "NVLinks up",
        "One missing link halves the bandwidth of a ring.",
        "what most GPUs of this model have",
        Severity.FAIL,
        asks(gpu_readers.links, gpu_readers.management),
        _nvlink,
    ),
    Check(
        "gpu.clocks",
        "slowed down by heat or power",
        "All ranks wait for the slowest GPU.",
        "the card's own reasons",
        Severity.WARN,
        asks(gpu_readers.management),
        _clocks,
    ),
)
