"""InfiniBand and RoCE adapters, from the kernel."""

from __future__ import annotations

import os
import re

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.text import listed, text_or_none
from pylaunch.protocol.readings.devices import PortReading

ADAPTERS = "/sys/class/infiniband"


@reader("infiniband.ports")
def adapters(_question: None) -> list[PortReading] | None:
    """Return every port of every adapter; None without an adapter."""
    return ports(ADAPTERS) or None


def ports(root: str) -> list[PortReading]:
    """Return the ports under `root`, which is /sys/class/infiniband except in tests."""
    found: list[PortReading] = []
    for adapter in listed(root):
        for port in listed(os.path.join(root, adapter, "ports")):
            place = os.path.join(root, adapter, "ports", port)
            found.append(
                {
                    "adapter": adapter,
                    "port": int(port),
                    "state": _word(text_or_none(os.path.join(place, "state"))),
                    "physical_state": _word(text_or_none(os.path.join(place, "phys_state"))),
                    "rate_gbps": _rate(text_or_none(os.path.join(place, "rate"))),
                }
            )
    return found


def _word(state: str | None) -> str | None:
    """Return ACTIVE for "4: ACTIVE"."""
    return None if state is None else state.rpartition(": ")[2]


def _rate(rate: str | None) -> float | None:
    """Return 400 for "400 Gb/sec (4X NDR)"."""
    found = re.match(r"[\d.]+", rate or "")
    return float(found.group(0)) if found else None
