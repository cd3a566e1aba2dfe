"""NVIDIA's GPUs on the PCI bus, without a driver's library."""

from __future__ import annotations

import os

from pylaunch.agent.shared.text import listed, text_of

PCI_DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")
BRIDGE = "0x0680"
"""PCI class (its first four digits) of an NVSwitch."""


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
