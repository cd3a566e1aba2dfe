"""Checks of the GPUs of a run before its ranks start, by NVML: present, healthy, and free of other processes.

NVML is called in a child process, because a call into a broken driver may never return. Only NVIDIA's GPUs are checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pylaunch import protocol
from pylaunch.agent.shared import leases, processes
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object

DRIVER = "/proc/driver/nvidia"
LIBRARY = "libnvidia-ml.so.1"
ANSWER_S = 3.0
"""Longest wait for NVML, from the fork of the child."""

LARGEST_ANSWER = 1 << 20
MOST_PROCESSES = 128
INSIST = "start --skip gpu starts without a look at GPUs"
KERNEL_LOG = "on the node: sudo dmesg | grep -i -e xid -e nvrm"

INIT_ERRORS = {9: "its driver is not loaded", 18: "the library and the loaded driver have different versions"}
DEVICE_ERRORS = {
    8: "has no external power",
    11: "gets no interrupts",
    15: "has fallen off the bus",
    16: "needs a reset",
}
"""Return codes of NVML that no rank survives. Others, as for a query that a GPU does not support, decide nothing."""

PROHIBITED = 2
"""nvmlComputeMode_t: no process may use the GPU."""

MPS = "nvidia-cuda-mps"
"""Prefix of the programs that share a GPU between processes."""


class GpuCheck:
    """A look at the GPUs of `task` that runs in a child process until `problems` is called."""

    def __init__(self, task: protocol.NodeTask) -> None:
        self._devices = sorted(task.devices) if task.checks_gpus and os.path.isdir(DRIVER) else []
        self._is_instance = "MIG-" in task.env.get("CUDA_VISIBLE_DEVICES", "")
        if self._devices:
            self._ends_at = time.monotonic() + ANSWER_S
            self._answer, writing = os.pipe()
            self._child = os.fork()
            if self._child == 0:
                _report(writing, self._devices)
            os.close(writing)

    def problems(self) -> list[protocol.Reason]:
        """Wait for the child, at most until ANSWER_S after the start, and return why ranks cannot use the GPUs."""
        if not self._devices:
            return []
        try:
            found = parse_object(self._read(), LARGEST_ANSWER)
        except TimeoutError:
            text = f"the NVIDIA driver does not answer within {ANSWER_S:g} s"
            return [protocol.Reason("gpu-silent", text, f"{KERNEL_LOG}; a reboot may be needed")]
        except UntrustedJsonError:
            return [protocol.Reason("gpu-silent", "NVML ends the process that calls it", KERNEL_LOG)]
        return list(judged(found, self._devices, is_instance=self._is_instance))

    def _read(self) -> bytes:
        content = b""
        try:
            while len(content) < LARGEST_ANSWER:
                ready, _, _ = select.select([self._answer], [], [], max(0.0, self._ends_at - time.monotonic()))
                if not ready:
                    raise TimeoutError
                chunk = os.read(self._answer, 1 << 16)
                if not chunk:
                    break
                content += chunk
        finally:
            os.close(self._answer)
            os.kill(self._child, signal.SIGKILL)
            # A child that waits in the driver obeys later, if ever: it is not awaited then.
            os.waitpid(self._child, os.WNOHANG if time.monotonic() >= self._ends_at else 0)
        return content


def judged(found: Mapping[str, Any], devices: list[int], *, is_instance: bool = False) -> Iterator[protocol.Reason]:
    """Yield the reasons in `found`, the answer of `facts`, for which ranks cannot use `devices`."""
    if found.get("init"):
        what = INIT_ERRORS.get(found["init"], f"NVML fails with code {found['init']}")
        yield protocol.Reason("gpu-silent", f"no NVIDIA GPU can be used: {what}", f"nvidia-smi; {KERNEL_LOG}")
        return
    missing = [index for index in devices if index >= found["count"]]
    if missing:
        numbers = ", ".join(map(str, missing))
        text = f"GPU {numbers} of the inventory {'is' if len(missing) == 1 else 'are'} missing: {found['count']} answer"
        yield protocol.Reason("gpu-missing", text, f"correct gpus= or devices= in the inventory, or {KERNEL_LOG}")
    for card in found["cards"]:
        yield from _of_card(card, is_instance=is_instance)


def _of_card(card: Mapping[str, Any], *, is_instance: bool) -> Iterator[protocol.Reason]:
    gpu, reset = f"GPU {card['index']}", f"sudo nvidia-smi --gpu-reset -i {card['index']}, or reboot; {INSIST}"
    if card["error"] in DEVICE_ERRORS:
        yield protocol.Reason("gpu-fault", f"{gpu} {DEVICE_ERRORS[card['error']]}", f"{KERNEL_LOG}; {reset}")
        return
    if card["remap_failed"]:
        yield protocol.Reason(
            "gpu-fault", f"{gpu} could not replace a broken row of its memory", f"exchange it; {INSIST}"
        )
    elif card["remap_pending"] or card["retirement_pending"]:
        yield protocol.Reason("gpu-fault", f"{gpu} waits for a reset to replace broken memory", reset)
    elif card["ecc_errors"]:
        text = f"{gpu} has had {card['ecc_errors']} uncorrected memory errors (ECC) since its last reset"
        yield protocol.Reason("gpu-fault", text, reset)
    if card["compute_mode"] == PROHIBITED:
        hint = f"sudo nvidia-smi -c DEFAULT -i {card['index']}"
        yield protocol.Reason("gpu-mode", f"{gpu} is in compute mode Prohibited: no process may use it", hint)
    if card["mig"] and not is_instance:
        text = f"{gpu} is in MIG mode: a rank gets one of its instances, not the GPU"
        hint = f"sudo nvidia-smi -mig 0 -i {card['index']}; to use the instance: --skip gpu"
        yield protocol.Reason("gpu-mode", text, hint)
    for pid, used in card["processes"]:
        holder = _holder(pid)
        if holder:
            memory = f", {used >> 20} MiB" if 0 < used < 1 << 62 else ""
            yield protocol.Reason("gpu-busy", f"{gpu} is in use by {holder}{memory}", _hint_for(pid))


def _holder(pid: int) -> str:
    """Return a description of a process with a GPU; "" for one that is gone, of a run (see `leases`), or of MPS."""
    try:
        process, uid = processes.read(pid), os.stat(f"/proc/{pid}").st_uid
    except (FileNotFoundError, ProcessLookupError):
        return ""
    if process.state == "Z" or MPS in process.command or processes.RUN_MARK in processes.environment(pid):
        return ""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(processes.start_time(process)))
    return f"pid {pid} ({process.command[:100]}) of {leases.user_name(uid)} since {since}"


def _hint_for(pid: int) -> str:
    return f"a leftover: pylaunch clean --stale kill; else wait for it, or on the node: kill {pid}; {INSIST}"


def _report(writing: int, devices: list[int]) -> None:
    """Write `facts` to the pipe `writing` and end this process, the child of the agent."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        for name in os.listdir("/proc/self/fd"):  # A call that never returns must not keep locks and sockets.
            if int(name) > 2 and int(name) != writing:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(facts(devices)).encode())
    finally:
        os._exit(0)


def facts(devices: list[int]) -> dict[str, Any]:
    """Return the count of GPUs and the state of `devices` by NVML: return codes, counts and flags, unjudged."""
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:  # Not installed, as in some containers: the kernel still counts.
        return {"init": 0, "count": len(os.listdir(f"{DRIVER}/gpus")), "cards": []}
    code, count = nvml.nvmlInit_v2(), ctypes.c_uint()
    code = code or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if code:
        return {"init": code, "count": 0, "cards": []}
    return {"init": 0, "count": count.value, "cards": [_card(nvml, index) for index in devices if index < count.value]}


def _card(nvml: ctypes.CDLL, index: int) -> dict[str, Any]:
    handle = ctypes.c_void_p()
    errors = [nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))]

    def asked(name: str, *arguments: Any, results: int = 1, kind: Any = ctypes.c_uint) -> list[int]:
        """Return the results of one query; zeros where the GPU or the library does not support it."""
        found = [kind() for _ in range(results)]
        if errors[0] or not hasattr(nvml, name):
            return [0] * results
        code = getattr(nvml, name)(handle, *arguments, *map(ctypes.byref, found))
        if code in DEVICE_ERRORS:
            errors[0] = code
        return [0 if code else each.value for each in found]

    _, _, pending, failed = asked("nvmlDeviceGetRemappedRows", results=4)
    return {
        "index": index,
        "remap_pending": pending,
        "remap_failed": failed,
        "retirement_pending": asked("nvmlDeviceGetRetiredPagesPendingStatus")[0],
        "ecc_errors": asked("nvmlDeviceGetTotalEccErrors", 1, 0, kind=ctypes.c_ulonglong)[0],
        "mig": asked("nvmlDeviceGetMigMode", results=2)[0],
        "compute_mode": asked("nvmlDeviceGetComputeMode")[0],
        "processes": [] if errors[0] else _processes(nvml, handle),
        "error": errors[0],
    }


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("part", ctypes.c_uint),
    )  # fmt: skip


def _processes(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> list[tuple[int, int]]:
    """Return process id and bytes of memory of each process that computes on the GPU."""
    for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
        if hasattr(nvml, name):
            count, found = ctypes.c_uint(MOST_PROCESSES), (_Process * MOST_PROCESSES)()
            code = getattr(nvml, name)(handle, ctypes.byref(count), found)
            return [] if code else [(each.pid, each.used) for each in found[: min(count.value, MOST_PROCESSES)]]
    return []
