"""Devices and their holders."""

from __future__ import annotations

from typing import Any

from pylaunch.checks.occupancy.devices import devices
from pylaunch.checks.occupancy.look import HostView
from pylaunch.checks.occupancy.processes import Occupancy
from pylaunch.model.cluster import Host


def test_a_holder_that_cannot_be_seen_has_the_container_that_its_cgroups_name() -> None:
    process = {
        "pid": 5310,
        "type": "C",
        "name": "python",
        "memory_mib": 1,
        "container": "podman container 4f1c0a6e9b7d",
    }
    card: Any = {
        "index": 0, "minor": 0, "name": "H200", "memory_used_mib": 1, "memory_total_mib": 2, "utilization_percent": 0,
        "processes": [process],
    }  # fmt: skip
    (device,) = devices(Host("n1", "10.0.0.1"), HostView(Occupancy(), (card,), None, {}, ()))
    (holder,) = device.unleased
    assert str(holder) == "pid 5310 (python) of another user in podman container 4f1c0a6e9b7d"
