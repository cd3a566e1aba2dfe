"""Drift of the software around NVIDIA's devices: against the desired state, and among its parts. Pure.

Provisioning verifies it and changes nothing: the driver version is the administrator's decision.
"""

from __future__ import annotations

from collections.abc import Iterator

from pylaunch.checks.gpudirect import exports_dma_buf
from pylaunch.probe.answers import Unmeasured
from pylaunch.protocol.readings.roles import GpuReading
from pylaunch.provision.observed.facts import Facts
from pylaunch.provision.state import DesiredGpu, RoleState


def differences(state: RoleState, facts: Facts) -> Iterator[tuple[str, str]]:
    """Return the differences on this host: (subject, difference)."""
    for wanted in state.gpus:
        fact = facts.gpus["all"]
        if isinstance(fact, Unmeasured):
            yield "gpu", f"cannot be looked at: {fact.reason}"
        elif fact is not None:
            yield from _driver(wanted, fact)
            yield from _persistence(wanted, fact)
            yield from _fabric_manager(wanted, fact)
            yield from _peer_memory(wanted, fact)


def remarks(state: RoleState, facts: Facts) -> Iterator[str]:
    """Return notes on what could not be, or need not be, verified."""
    for wanted in state.gpus:
        fact = facts.gpus["all"]
        if fact is None:
            yield "not applicable: no NVIDIA device"
        elif isinstance(fact, Unmeasured) or fact["driver"] is None:
            continue
        elif wanted.persistence and fact["persistence"] is None:
            yield "persistence mode was not looked at: no nvidia-smi"


def _driver(wanted: DesiredGpu, fact: GpuReading) -> Iterator[tuple[str, str]]:
    if fact["driver"] is None:
        yield "gpu driver", f"is not loaded, and there are {fact['gpus']} devices"
        return
    if wanted.driver and fact["driver"] != wanted.driver:
        yield "gpu driver", f"is {fact['driver']}, not {wanted.driver}"
    if fact["library"] is not None and fact["library"] != fact["driver"]:
        yield "gpu driver", f"is {fact['driver']}, and its libraries say {fact['library']}: reboot after an upgrade"


def _persistence(wanted: DesiredGpu, fact: GpuReading) -> Iterator[tuple[str, str]]:
    if wanted.persistence and fact["persistence"] not in (None, wanted.persistence):
        yield "gpu persistence", f"is {fact['persistence']}, not {wanted.persistence}: start nvidia-persistenced"


def _fabric_manager(wanted: DesiredGpu, fact: GpuReading) -> Iterator[tuple[str, str]]:
    if wanted.fabric_manager != "auto" or not fact["nvswitches"] or fact["driver"] is None:
        return
    if fact["fabric_manager"] is None:
        yield "fabric manager", f"is not installed, and there are {fact['nvswitches']} NVSwitches"
    elif fact["fabric_manager"] != fact["driver"]:
        yield "fabric manager", f"is {fact['fabric_manager']}, and must be the driver's version {fact['driver']}"


def _peer_memory(wanted: DesiredGpu, fact: GpuReading) -> Iterator[tuple[str, str]]:
    if wanted.peer_memory != "auto" or not fact["infiniband"] or fact["peermem"]:
        return
    if not exports_dma_buf(open_module=fact["open_module"], kernel=fact["kernel"]):
        yield "nvidia_peermem", "is not loaded, so the network cannot reach device memory: modprobe nvidia_peermem"
