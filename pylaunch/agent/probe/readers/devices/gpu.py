"""NVIDIA's devices from the kernel and NVIDIA's tools. Changes no setting; parsers are tested on published output."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Mapping

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import cgroups, programs
from pylaunch.agent.shared.essentials import NVIDIA_VERSION, PCI_DEVICES, cuda_needed, driver_version, pci_gpus
from pylaunch.agent.shared.programs import ended
from pylaunch.agent.shared.text import text_of
from pylaunch.base.kernel_log import XID_TEXT
from pylaunch.protocol.readings.devices import (
    Card,
    CudaReading,
    GpuHostReading,
    NvlinkReading,
    SmiReading,
    XidEvent,
    XidReading,
)

if TYPE_CHECKING:
    from xml.etree import ElementTree


SMI_DEADLINE_S = 15.0
"""Without persistence mode, each call initializes all devices, which takes seconds."""


def tool_output(words: list[str]) -> str:
    """Return the output of one of NVIDIA's tools; "" if it is not installed."""
    try:
        return ended(words, joined=True, deadline_s=SMI_DEADLINE_S).output
    except FileNotFoundError:
        return ""
    except TimeoutError as error:
        return str(error)


@reader("gpu.host")
def host(_question: None) -> GpuHostReading | None:
    """Return devices and software as the kernel sees them; None without a device, a driver and a tool."""
    if not is_here():
        return None
    version = text_of(NVIDIA_VERSION) if os.path.exists(NVIDIA_VERSION) else ""
    return {"gpus": len(pci_gpus(PCI_DEVICES)), "driver": driver_version(version)}


def is_here() -> bool:
    """Return True with an NVIDIA device, driver or nvidia-smi on this host."""
    if programs.path_of("nvidia-smi") is not None or os.path.exists(NVIDIA_VERSION):
        return True
    return bool(pci_gpus(PCI_DEVICES))


@reader("gpu.smi", 20.0)
def management(_question: None) -> SmiReading | None:
    """Return the output of `nvidia-smi -q -x`, parsed; None without NVIDIA's devices. ValueError without the tool."""
    if not is_here():
        return None
    if programs.path_of("nvidia-smi") is None:
        raise ValueError("nvidia-smi is not installed")
    found = cards(tool_output(["nvidia-smi", "-q", "-x"]))
    if cgroups.sees_all_pids():  # nvidia-smi has the process ids of the host.
        for process in (each for card in found["cards"] for each in card["processes"]):
            process["container"] = cgroups.container(process["pid"] or 0)
    return found


def cards(output: str) -> SmiReading:
    """Parse the XML of nvidia-smi: {"complaint", "driver", "cuda", "cards"}; `complaint` is its error message."""
    from xml.etree import ElementTree  # noqa: PLC0415 -- 10 ms on hosts without nvidia-smi

    begin = output.find("<nvidia_smi_log>")
    try:
        log = ElementTree.fromstring(output[begin:]) if begin >= 0 else None
    except ElementTree.ParseError:
        log = None
    if log is None:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        return {"complaint": " ".join(lines[:2]) or "it printed nothing", "driver": None, "cuda": None, "cards": []}
    return {
        "complaint": None,
        "driver": _text(log, "driver_version"),
        "cuda": _text(log, "cuda_version"),
        "cards": [_card(index, each) for index, each in enumerate(log.findall("gpu"))],
    }


_REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")
"""Element names since driver 535, and before it."""


def _card(index: int, card: ElementTree.Element) -> Card:
    volatile = card.find("ecc_errors/volatile")
    return {
        "index": index,
        "bus": card.get("id", ""),
        "minor": _number(card, "minor_number"),
        "name": _text(card, "product_name"),
        "persistence": _text(card, "persistence_mode"),
        "compute_mode": _text(card, "compute_mode"),
        "mig": _text(card, "mig_mode/current_mig"),
        "memory_total_mib": _number(card, "fb_memory_usage/total"),
        "memory_used_mib": _number(card, "fb_memory_usage/used"),
        "utilization_percent": _number(card, "utilization/gpu_util"),
        "temperature_c": _number(card, "temperature/gpu_temp"),
        "throttled": _active_reasons(card),
        "ecc_uncorrectable": None if volatile is None else _uncorrectable(volatile),
        "remap_pending": _text(card, "remapped_rows/remapped_row_pending"),
        "remap_failure": _text(card, "remapped_rows/remapped_row_failure"),
        "recovery": _text(card, "gpu_recovery_action"),
        "fabric_state": _text(card, "fabric/state"),
        "fabric_status": _text(card, "fabric/status"),
        "processes": [
            {
                "pid": _number(each, "pid"),
                "type": _text(each, "type"),
                "name": (_text(each, "process_name") or "")[:300],
                "memory_mib": _number(each, "used_memory"),
            }
            for each in card.findall("processes/process_info")
        ],
    }


def _active_reasons(card: ElementTree.Element) -> list[str]:
    """Return the active reasons for reduced clocks without their prefix: "hw_thermal_slowdown"."""
    found = []
    for group in _REASONS:
        for reason in card.findall(group + "/*"):
            if (reason.text or "").strip() == "Active":
                found.append(re.sub(r"^clocks_(event|throttle)_reason_", "", reason.tag))
    return found


def _uncorrectable(volatile: ElementTree.Element) -> int | None:
    """Return the uncorrectable errors of all memories since the driver was loaded; None if ECC is off or unknown."""
    double_bit = volatile.find("double_bit/total")  # Before Turing.
    fields = [double_bit] if double_bit is not None else [each for each in volatile if "uncorrectable" in each.tag]
    counts = [int(text) for text in ((each.text or "").strip() for each in fields) if text.isdigit()]
    return sum(counts) if counts else None


def _text(parent: ElementTree.Element, path: str) -> str | None:
    """Return the text of an element; None if the device or driver does not have it."""
    found = (parent.findtext(path) or "").strip()
    return None if found in ("", "N/A", "[N/A]") or found.startswith("Requested functionality") else found


def _number(parent: ElementTree.Element, path: str) -> int | None:
    """Return the leading number of an element without its unit: "23034 MiB", "16x", "-2 C"."""
    found = re.match(r"-?\d+", _text(parent, path) or "")
    return int(found.group(0)) if found else None


XID = rf"\[\s*(?P<at>\d+\.\d+)\].*?{XID_TEXT},?\s*(?P<text>.*)"
"""Patterns of this module are compiled at their first use: most hosts have no GPU."""

XIDS_KEPT = 100
LOG_DEADLINE_S = 10.0
KERNEL_LOGS = (
    ("dmesg",),
    ("journalctl", "--dmesg", "--boot", "--output", "short-monotonic", "--no-pager", "--quiet"),
)
"""Tried in this order: with kernel.dmesg_restrict, the journal may still be readable."""


@reader("gpu.xid")
def kernel_errors(_question: None) -> XidReading | None:
    """Return the Xids since boot; None without NVIDIA's devices. Raises PermissionError if no log can be read."""
    if not is_here():
        return None
    complaint = ""
    for words in KERNEL_LOGS:
        if programs.path_of(words[0]) is None:
            continue
        ended = programs.ended(words, deadline_s=LOG_DEADLINE_S)
        if ended.status == 0 and ended.output:
            return {"uptime_s": float(text_of("/proc/uptime").split()[0]), "xids": xids(ended.output)}
        complaint = complaint or ended.errors.strip()
    raise PermissionError(f"the kernel log cannot be read: {complaint or 'neither dmesg nor journalctl says anything'}")


def xids(log: str) -> list[XidEvent]:
    """Return the last Xids in a kernel log, oldest first."""
    found = [match for match in (re.search(XID, line) for line in log.splitlines()) if match]
    return [
        {"at": float(each["at"]), "bus": each["device"], "code": int(each["code"]), "text": each["text"].strip()[:300]}
        for each in found[-XIDS_KEPT:]
    ]


@reader("gpu.nvlink", 20.0)
def links(_question: None) -> dict[str, NvlinkReading] | None:
    """Return the links in the output of `nvidia-smi nvlink`; None without the tool."""
    if programs.path_of("nvidia-smi") is None:
        return None
    return nvlink(tool_output(["nvidia-smi", "nvlink", "--status"]))


_DEVICE_LINE = r"GPU (\d+): "
_LINK_LINE = r"\s+Link (\d+): (.*)"
_IS_UP = r"[\d.]+ GB/s$"


def nvlink(status: str) -> dict[str, NvlinkReading]:
    """Return device index (as text) → its links."""
    found: dict[str, NvlinkReading] = {}
    device = None
    for line in status.splitlines():
        begin, link = re.match(_DEVICE_LINE, line), re.match(_LINK_LINE, line)
        if begin:
            device = found.setdefault(begin.group(1), {"up": [], "down": []})
        elif link and device is not None:
            device["up" if re.match(_IS_UP, link.group(2).strip()) else "down"].append(int(link.group(1)))
    return found


@reader("gpu.cuda")
def cuda(question: Mapping[str, Any]) -> CudaReading | None:
    """Return torch or JAX beside the interpreter `python` of the question, and its CUDA version; None without both."""
    needed = cuda_needed(question["python"])
    return None if needed is None else {"package": needed[0], "cuda": needed[1]}
