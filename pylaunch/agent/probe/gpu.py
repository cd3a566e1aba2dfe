"""NVIDIA's devices and the versions that must agree, from the kernel and from NVIDIA's tools if installed.

Changes no setting. Parsers take text and are tested on published output.
"""

from __future__ import annotations

import os
import re

from pylaunch.agent.shared.essentials import NVIDIA_VERSION, driver_version
from pylaunch.agent.shared.gpus import PCI_DEVICES, pci_devices
from pylaunch.agent.shared.programs import ended
from pylaunch.agent.shared.text import listed, text_of
from pylaunch.protocol.readings.devices import GpuReading

CARDS = "/proc/driver/nvidia/gpus"
SMI_DEADLINE_S = 15.0
"""Without persistence mode, each call initializes all devices, which takes seconds."""

SMI_QUERY = "persistence_mode,driver_version"


def gpu_fact() -> GpuReading | None:
    """Return NVIDIA's devices on this host with driver and tools; None without such a device."""
    devices = pci_devices(PCI_DEVICES)
    if not devices["gpus"] and not os.path.exists(NVIDIA_VERSION):
        return None
    version = text_of(NVIDIA_VERSION) if os.path.exists(NVIDIA_VERSION) else ""
    cards = [card_information(text_of(f"{CARDS}/{address}/information")) for address in listed(CARDS)]
    smi = management(["nvidia-smi", "--query-gpu=" + SMI_QUERY, "--format=csv,noheader"])
    return {
        "driver": driver_version(version),
        "open_module": "Open Kernel Module" in version,
        "kernel": os.uname().release,
        "gpus": len(devices["gpus"]) or len(cards),
        "models": [card.get("Model", "unknown") for card in cards],
        "firmware": [card.get("Video BIOS", "unknown") for card in cards],
        "nvswitches": len(devices["switches"]),
        "persistence": smi_column(smi, 0),
        "library": smi_column(smi, 1),
        "fabric_manager": fabric_manager_version(management(["nv-fabricmanager", "--version"])),
        "peermem": os.path.exists("/sys/module/nvidia_peermem"),
        "infiniband": len(listed("/sys/class/infiniband")),
    }


def card_information(text: str) -> dict[str, str]:
    """Return the fields of /proc/driver/nvidia/gpus/*/information."""
    rows = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in rows if colon}


def smi_column(output: str, column: int) -> str | None:
    """Return the value of all devices in the output of `nvidia-smi --query-gpu`; several values if they differ.

    "unreadable: …" with an error message of nvidia-smi; None without output.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines:
        return None
    if "," not in lines[0]:
        return "unreadable: " + lines[0]
    return ", ".join(sorted({line.split(",")[column].strip() for line in lines}))


def fabric_manager_version(output: str) -> str | None:
    """Return the version in the output of `nv-fabricmanager --version`; None without one."""
    found = re.search(r"\d+\.\d+(?:\.\d+)*", output)
    return found.group(0) if found else None


def management(words: list[str]) -> str:
    """Return the output of one of NVIDIA's tools; "" if it is not installed."""
    try:
        return ended(words, joined=True, deadline_s=SMI_DEADLINE_S).output
    except FileNotFoundError:
        return ""
    except TimeoutError as error:
        return str(error)
