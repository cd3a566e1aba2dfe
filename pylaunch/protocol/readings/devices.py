"""Types of readings of GPUs and network adapters."""

from __future__ import annotations

from typing import TypedDict


class GpuHostReading(TypedDict):
    """NVIDIA's devices as the kernel sees them, and their driver."""

    gpus: int
    driver: str | None


class InContainer(TypedDict, total=False):
    """Container of a process, where it has one. Not `NotRequired`, which Python has since 3.11."""

    container: str


class CardProcess(InContainer):
    """A process on a GPU."""

    pid: int | None
    type: str | None
    name: str
    memory_mib: int | None


class Card(TypedDict):
    """A GPU in the output of nvidia-smi; None for values that the device or the driver does not have."""

    index: int
    bus: str
    minor: int | None
    name: str | None
    persistence: str | None
    compute_mode: str | None
    mig: str | None
    memory_total_mib: int | None
    memory_used_mib: int | None
    utilization_percent: int | None
    temperature_c: int | None
    throttled: list[str]
    ecc_uncorrectable: int | None
    remap_pending: str | None
    remap_failure: str | None
    recovery: str | None
    fabric_state: str | None
    fabric_status: str | None
    processes: list[CardProcess]


class SmiReading(TypedDict):
    """Output of nvidia-smi, or its error message as `complaint`."""

    complaint: str | None
    driver: str | None
    cuda: str | None
    cards: list[Card]


class XidEvent(TypedDict):
    """An Xid in the kernel log, `at` in seconds after boot."""

    at: float
    bus: str
    code: int
    text: str


class XidReading(TypedDict):
    """Xids since boot."""

    uptime_s: float
    xids: list[XidEvent]


class NvlinkReading(TypedDict):
    """NVLinks of one GPU by their numbers."""

    up: list[int]
    down: list[int]


class CudaReading(TypedDict):
    """torch or JAX in the environment of the ranks, and the major version of CUDA that it is made for."""

    package: str
    cuda: int


class PortReading(TypedDict):
    """A port of an InfiniBand or RoCE adapter."""

    adapter: str
    port: int
    state: str | None
    physical_state: str | None
    rate_gbps: float | None
