"""NVIDIA's devices and the versions around them, against which the role gpu_node is compared."""

from __future__ import annotations

from pylaunch.agent.probe.gpu import gpu_fact
from pylaunch.agent.probe.registry import reader
from pylaunch.protocol.readings.roles import GpuReading


@reader("gpu_node.devices", 55.0)
def devices(_question: None) -> GpuReading | None:
    """Return NVIDIA's devices with driver and tools; None without devices."""
    return gpu_fact()
