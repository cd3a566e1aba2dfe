"""State of NVIDIA's GPUs by NVML, the driver's library: return codes, counts and flags, unjudged.

Calls may never return or end the process: `facts` belongs into a process of its own.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

DRIVER = "/proc/driver/nvidia"
LIBRARY = "libnvidia-ml.so.1"
MOST_PROCESSES = 128
NAME_SIZE = 96
"""Bytes of the longest name or UUID (NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_DEVICE_UUID_V2_BUFFER_SIZE)."""

NOT_FOUND = 6
DEVICE_ERRORS = {
    8: "has no external power",
    11: "gets no interrupts",
    15: "has fallen off the bus",
    16: "needs a reset",
}
"""Return codes of NVML that no rank survives. Others, as for a query that a GPU does not support, decide nothing."""

KNOWN = 1 << 62
"""Larger numbers mean that a value is not available (NVML_VALUE_NOT_AVAILABLE)."""


def facts(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the count of GPUs with the CUDA version of the driver, then the state of each GPU of `names`.

    `names` are numbers or UUIDs. Without persistence mode, the first call for a GPU initializes it, which takes time.
    """
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:  # Not installed, as in some containers, and so is nvidia-smi, which needs it: the kernel counts.
        there = len(os.listdir(f"{DRIVER}/gpus"))
        yield {"init": 0, "count": there, "cuda": 0}
        yield from ({"name": name, "error": NOT_FOUND} for name in names if name.isdigit() and int(name) >= there)
        return
    count, cuda = ctypes.c_uint(), ctypes.c_int()
    code = nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    is_known = hasattr(nvml, "nvmlSystemGetCudaDriverVersion_v2")
    if not is_known or nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda)):
        cuda.value = 0
    yield {"init": code, "count": count.value, "cuda": cuda.value}
    if not code:
        yield from (_card(nvml, name, count.value) for name in names)


def _handle(nvml: ctypes.CDLL, name: str, count: int) -> tuple[int, ctypes.c_void_p]:
    """Return the code and the handle of a GPU by its number, the beginning of its UUID, or the UUID of an instance."""
    handle = ctypes.c_void_p()
    if name.isdigit():
        code = nvml.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(handle)) if int(name) < count else NOT_FOUND
        return code, handle
    if name.startswith("MIG-"):
        return nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)), handle
    for index in range(count):
        if not nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            uuid = ctypes.create_string_buffer(NAME_SIZE)
            if not nvml.nvmlDeviceGetUUID(handle, uuid, NAME_SIZE) and uuid.value.startswith(name.encode()):
                return 0, handle
    return NOT_FOUND, handle


def _card(nvml: ctypes.CDLL, name: str, count: int) -> dict[str, Any]:
    code, handle = _handle(nvml, name, count)
    if code:
        return {"name": name, "error": code}
    errors = [0]

    def asked(query: str, *arguments: Any, results: int = 1, kind: Any = ctypes.c_uint) -> list[int]:
        """Return the results of one query; zeros where the GPU or the library does not support it."""
        found = [kind() for _ in range(results)]
        if errors[0] or not hasattr(nvml, query):
            return [0] * results
        code = getattr(nvml, query)(handle, *arguments, *map(ctypes.byref, found))
        if code in DEVICE_ERRORS:
            errors[0] = code
        return [0 if code or each.value > KNOWN else each.value for each in found]

    _, _, pending, failed = asked("nvmlDeviceGetRemappedRows", results=4)
    return {
        "name": name,
        "model": _model(nvml, handle),
        "remap_pending": pending,
        "remap_failed": failed,
        "retirement_pending": asked("nvmlDeviceGetRetiredPagesPendingStatus")[0],
        "ecc_errors": asked("nvmlDeviceGetTotalEccErrors", 1, 0, kind=ctypes.c_ulonglong)[0],
        "mig": asked("nvmlDeviceGetMigMode", results=2)[0],
        "compute_mode": asked("nvmlDeviceGetComputeMode")[0],
        "processes": [] if errors[0] else _processes(nvml, handle),
        "error": errors[0],
    }


def _model(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> str:
    """Return name and memory of the GPU: "NVIDIA H200, 140 GiB"; "" for one that does not say both."""
    name, sizes = ctypes.create_string_buffer(NAME_SIZE), (ctypes.c_ulonglong * 3)()  # Total, free and used.
    if not hasattr(nvml, "nvmlDeviceGetName") or nvml.nvmlDeviceGetName(handle, name, NAME_SIZE):
        return ""
    if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(sizes)):
        return ""
    return f"{name.value.decode('ascii', 'replace')}, {sizes[0] / (1 << 30):.0f} GiB"


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("part", ctypes.c_uint),
    )  # fmt: skip


def _processes(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> list[tuple[int, int]]:
    """Return process id and bytes of memory (0: not known) of each process that computes on the GPU."""
    for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
        if hasattr(nvml, name):
            count, found = ctypes.c_uint(MOST_PROCESSES), (_Process * MOST_PROCESSES)()
            code = getattr(nvml, name)(handle, ctypes.byref(count), found)
            seen = [] if code else found[: min(count.value, MOST_PROCESSES)]
            return [(each.pid, each.used if each.used < KNOWN else 0) for each in seen]
    return []
