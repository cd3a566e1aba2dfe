"""GPUs as the kernel shows them, without a driver's library: NVIDIA's on the PCI bus, AMD's in the files of KFD."""

from __future__ import annotations

import os
import re

from pylaunch.agent.shared.text import listed, names_in, text_of, text_or_none

PCI_DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")
BRIDGE = "0x0680"
"""PCI class (its first four digits) of an NVSwitch."""

KFD = "/sys/class/kfd/kfd"
"""AMD's compute driver. HIP numbers GPUs in the order of its topology."""

COMPUTES = re.compile(r"^simd_count [1-9]", re.MULTILINE)
"""In the properties of a GPU in KFD's topology. Those of a GPU that this user may not use are unreadable."""

MOST_PROCESSES = 4096


def pci_devices(root: str) -> dict[str, list[str]]:
    """Return the PCI addresses of NVIDIA's GPUs and NVSwitches."""
    found: dict[str, list[str]] = {"gpus": [], "switches": []}
    for address in listed(root):
        place = os.path.join(root, address)
        try:
            vendor, kind = (text_of(os.path.join(place, name)).strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == NVIDIA and kind[:6] in DISPLAY:
            found["gpus"].append(address)
        elif vendor == NVIDIA and kind[:6] == BRIDGE:
            found["switches"].append(address)
    return found


def amd_gpus(kfd: str) -> list[str]:
    """Return the ids of AMD's GPUs that this user may use, in the order of their numbers."""
    directory = f"{kfd}/topology/nodes"
    nodes = [f"{directory}/{name}" for name in sorted(filter(str.isdigit, listed(directory)), key=int)]
    gpus = (node for node in nodes if COMPUTES.search(text_or_none(f"{node}/properties") or ""))
    return [text_or_none(f"{node}/gpu_id") or "" for node in gpus]


def amd_holders(kfd: str, gpu: str) -> list[tuple[int, int]]:
    """Return process id and bytes of memory of each process that has memory of AMD's GPU with the id `gpu`."""
    pids = filter(str.isdigit, names_in(f"{kfd}/proc", MOST_PROCESSES))
    used = ((int(pid), text_or_none(f"{kfd}/proc/{pid}/vram_{gpu}") or "") for pid in pids)
    return [(pid, int(size)) for pid, size in used if size.isdigit() and int(size)]
