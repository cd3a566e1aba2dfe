"""InfiniBand and RoCE adapters, from the kernel."""

from __future__ import annotations

import os
import re

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.text import listed, text_or_none
from pylaunch.protocol.readings.devices import GidEntry, PortReading

ADAPTERS = "/sys/class/infiniband"
GIDS_KEPT = 16
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


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
                    "model": text_or_none(os.path.join(root, adapter, "hca_type")),
                    "state": _word(text_or_none(os.path.join(place, "state"))),
                    "physical_state": _word(text_or_none(os.path.join(place, "phys_state"))),
                    "rate_gbps": _rate(text_or_none(os.path.join(place, "rate"))),
                    "link_layer": text_or_none(os.path.join(place, "link_layer")),
                    "counters": _counters(os.path.join(place, "counters")),
                    "gids": _gids(place),
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


def _counters(directory: str) -> dict[str, int]:
    values = ((name, text_or_none(os.path.join(directory, name))) for name in listed(directory))
    return {name: int(value) for name, value in values if value is not None and value.isdigit()}


def _gids(place: str) -> list[GidEntry]:
    """Return the first nonzero entries of the GID table; `type` is "IB/RoCE v1" or "RoCE v2"."""
    found: list[GidEntry] = []
    for index in sorted(listed(os.path.join(place, "gids")), key=int):
        gid = text_or_none(os.path.join(place, "gids", index))
        if gid and gid != NO_GID and len(found) < GIDS_KEPT:
            attributes = os.path.join(place, "gid_attrs")
            found.append(
                {
                    "index": int(index),
                    "gid": gid,
                    "type": text_or_none(os.path.join(attributes, "types", index)),
                    "interface": text_or_none(os.path.join(attributes, "ndevs", index)),
                }
            )
    return found
