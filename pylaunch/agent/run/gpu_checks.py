"""Checks of the GPUs of a run before its ranks start: present, healthy, free of others, with a driver for their CUDA.

NVML, NVIDIA's library, is called in a child process: a call into a broken driver may never return, or end the process.
A node without an NVIDIA GPU is not refused:
`devices` may be a plan alone.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import select
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pylaunch import protocol
from pylaunch.agent.shared import cgroups, essentials, leases, processes, run_processes
from pylaunch.base.layout import RUN_ID, NodeRoot
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object

DRIVER = "/proc/driver/nvidia"
LIBRARY = "libnvidia-ml.so.1"
MOST_PROCESSES = 128
NAME_SIZE = 96
"""Bytes of the longest name or UUID (NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_DEVICE_UUID_V2_BUFFER_SIZE)."""

NOT_FOUND = 6
FATAL_ERRORS = {
    8: "has no external power",
    11: "gets no interrupts",
    15: "has fallen off the bus",
    16: "needs a reset",
}
"""Return codes of NVML that no rank survives. Others, as for a query that a GPU does not support, decide nothing."""

KNOWN = 1 << 62
"""Larger numbers mean that a value is not available (NVML_VALUE_NOT_AVAILABLE)."""


def nvml_facts(names: list[str]) -> Iterator[dict[str, Any]]:
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
        yield from (_state_of(nvml, name, count.value) for name in names)


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


def _state_of(nvml: ctypes.CDLL, name: str, count: int) -> dict[str, Any]:
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
        if code in FATAL_ERRORS:
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


ANSWER_S = 3.0
"""Longest wait for an answer of NVML: for the driver, and for each GPU."""

LARGEST_ANSWER = 1 << 20
INSIST = "to start all the same: --skip "
KERNEL_LOG = "on the node: sudo dmesg | grep -i -e xid -e nvrm"
VISIBLE = "CUDA_VISIBLE_DEVICES"
NAMES = re.compile(r"\d+|(GPU|MIG)-[\w/-]+", re.ASCII)
"""Number or identifier of a GPU in CUDA_VISIBLE_DEVICES; CUDA ignores what follows another word."""

INIT_ERRORS = {9: "its driver is not loaded", 18: "the library and the loaded driver have different versions"}
DEVICE_ERRORS = {**FATAL_ERRORS, 4: "may not be opened by this user"}
PROHIBITED = 2
"""nvmlComputeMode_t: no process may use the GPU."""

MPS = "nvidia-cuda-mps"
"""Prefix of the programs that share a GPU between processes."""

COMPATIBLE_FROM = 11
"""Drivers of this CUDA and later run programs of every minor version of their major one."""

COMPATIBILITY = re.compile(r"(^|:)[^:]*compat")
"""LD_LIBRARY_PATH with NVIDIA's package that runs a newer CUDA on an older driver."""


class GpuCheck:
    """A look at the GPUs of `task`; NVML answers in a child process until `problems` is called."""

    def __init__(self, task: protocol.NodeTask) -> None:
        self._task = task
        self._names = visible(task) if task.gpu_checks else []
        self._has_driver = bool(self._names) and os.path.isdir(DRIVER)
        self.models = ""
        """Models and memory of the GPUs, once `problems` has returned; "" where they are not known."""

        if self._has_driver:
            self._answer, writing = os.pipe()
            self._child = os.fork()
            if self._child == 0:
                _report(writing, self._names)
            os.close(writing)

    def problems(self, *, is_leased: bool = False) -> list[protocol.Reason]:
        """Wait for the child, at most ANSWER_S for each answer, and return why ranks cannot use the GPUs.

        Holders are left out with `is_leased`: the lease names the run, for which a start may wait.
        """
        if not self._names:
            return []
        found = self._by_nvml() if self._has_driver else _by_bus()
        return [
            each for each in found if each.code in self._task.gpu_checks and not (is_leased and each.code == "gpu-busy")
        ]

    def _by_nvml(self) -> Iterator[protocol.Reason]:
        lines, has_ended = self._read()
        try:
            answers = [parse_object(line, LARGEST_ANSWER) for line in lines]
        except UntrustedJsonError:
            answers = []
        if has_ended and (not answers or answers.pop()):  # The last one is empty.
            yield protocol.Reason("gpu-silent", "NVML ends the process that calls it", KERNEL_LOG)
            return
        if not has_ended:
            of = "".join(f" for GPU {name}" for name in self._names[len(answers) - 1 :][:1] if answers)
            text = f"the NVIDIA driver does not answer{of} within {ANSWER_S:g} s"
            yield protocol.Reason("gpu-silent", text, f"{KERNEL_LOG}; a reboot may be needed")
            return
        found = {**answers[0], "cards": answers[1:]}
        self.models = "; ".join(sorted({each["model"] for each in found["cards"] if each.get("model")}))
        yield from judged(found, self._task.host)
        if not COMPATIBILITY.search(self._task.env.get("LD_LIBRARY_PATH", "")) and self._task.container is None:
            yield from older_driver(found["cuda"], essentials.cuda_needed(self._task.python))

    def _read(self) -> tuple[list[bytes], bool]:
        """Return the lines of the child, and whether it has ended. Ends a child that is silent for ANSWER_S."""
        content, has_ended = b"", False
        try:
            while len(content) < LARGEST_ANSWER:
                if not select.select([self._answer], [], [], ANSWER_S)[0]:
                    break
                chunk = os.read(self._answer, 1 << 16)
                if not chunk:
                    has_ended = True
                    break
                content += chunk
        finally:
            os.close(self._answer)
            os.kill(self._child, signal.SIGKILL)
            # A child that waits in the driver obeys later, if ever: it is not awaited then.
            os.waitpid(self._child, 0 if has_ended else os.WNOHANG)
        return content.splitlines(), has_ended


def visible(task: protocol.NodeTask) -> list[str]:
    """Return the GPUs that ranks see, as numbers or UUIDs: those of CUDA_VISIBLE_DEVICES, else of the plan."""
    if VISIBLE not in task.env:
        return [str(index) for index in sorted(task.devices)]
    found: list[str] = []
    for word in task.env[VISIBLE].split(","):
        if not NAMES.fullmatch(word.strip()):
            break
        found.append(word.strip())
    return found


def judged(found: Mapping[str, Any], host: str) -> Iterator[protocol.Reason]:
    """Yield the reasons in `found`, the answers of `nvml_facts`, for which ranks cannot use its GPUs."""
    if found["init"]:
        what = INIT_ERRORS.get(found["init"], f"NVML fails with code {found['init']}")
        yield protocol.Reason("gpu-silent", f"no NVIDIA GPU can be used: {what}", f"nvidia-smi; {KERNEL_LOG}")
        return
    missing = [card["name"] for card in found["cards"] if card["error"] == NOT_FOUND]
    if missing:
        yield _missing(missing, found["count"])
    for card in found["cards"]:
        if card["error"] != NOT_FOUND:
            yield from _of_card(card, host)


def _missing(names: list[str], count: int) -> protocol.Reason:
    text = f"GPU {', '.join(names)} of the plan {'is' if len(names) == 1 else 'are'} missing: {count} answer"
    return protocol.Reason(
        "gpu-missing", text, f"correct gpus= or devices= in the inventory, or {VISIBLE}; {KERNEL_LOG}"
    )


def _of_card(card: Mapping[str, Any], host: str) -> Iterator[protocol.Reason]:
    gpu, reset = f"GPU {card['name']}", f"sudo nvidia-smi --gpu-reset -i {card['name']}, or reboot; {INSIST}gpu.memory"
    if card["error"]:
        what = DEVICE_ERRORS.get(card["error"], f"does not answer: NVML fails with code {card['error']}")
        yield protocol.Reason("gpu-fault", f"{gpu} {what}", f"{KERNEL_LOG}; {reset}")
        return
    if card["remap_failed"]:
        yield protocol.Reason(
            "gpu-fault", f"{gpu} could not replace a broken row of its memory", f"exchange it; {INSIST}gpu.memory"
        )
    elif card["remap_pending"] or card["retirement_pending"]:
        yield protocol.Reason("gpu-fault", f"{gpu} waits for a reset to replace broken memory", reset)
    elif card["ecc_errors"]:
        text = f"{gpu} has had {card['ecc_errors']} uncorrected memory errors (ECC) since its last reset"
        yield protocol.Reason("gpu-fault", text, reset)
    if card["compute_mode"] == PROHIBITED:
        hint = f"sudo nvidia-smi -c DEFAULT -i {card['name']}"
        yield protocol.Reason("gpu-mode", f"{gpu} is in compute mode Prohibited: no process may use it", hint)
    if card["mig"]:
        text = f"{gpu} is in MIG mode: a rank gets one of its instances, not the GPU"
        hint = f"sudo nvidia-smi -mig 0 -i {card['name']}; to use instances: --env {VISIBLE}=MIG-… (nvidia-smi -L)"
        yield protocol.Reason("gpu-mode", text, hint)
    yield from _held(gpu, card["processes"], host)


def _by_bus() -> Iterator[protocol.Reason]:
    """Yield the reason on a node without NVIDIA's driver; none on one without its GPUs."""
    if on_bus := len(essentials.pci_gpus(essentials.PCI_DEVICES)):
        text = f"no NVIDIA GPU can be used: {on_bus} on the PCI bus, and the driver is not loaded"
        yield protocol.Reason(
            "gpu-silent", text, f"on the node: sudo modprobe nvidia; sudo dmesg | tail; {INSIST}gpu.software"
        )


def older_driver(driver: int, needed: tuple[str, int] | None) -> Iterator[protocol.Reason]:
    """Yield a reason where the CUDA of the `driver` (12080: 12.8; 0: not known) is older than that of the ranks."""
    major = driver // 1000
    if needed is not None and COMPATIBLE_FROM <= major < needed[1]:
        text = f"{needed[0]} is for CUDA {needed[1]}, and the driver knows {major}.{driver % 1000 // 10}"
        hint = f"install a newer driver, or a {needed[0]} for CUDA {major}; {INSIST}gpu.cuda"
        yield protocol.Reason("gpu-cuda", text, hint)


def _held(gpu: str, holders: list[tuple[int, int]], host: str) -> Iterator[protocol.Reason]:
    """Yield a reason for each of `holders` that is no rank of a live run, whose lease says so, and no part of MPS."""
    if not cgroups.sees_all_pids():
        return  # In a container, process ids of the driver are those of other processes.
    for pid, used in holders:
        try:
            process, uid = processes.read(pid), os.stat(f"/proc/{pid}").st_uid
        except (FileNotFoundError, ProcessLookupError):
            continue
        if process.state == "Z" or MPS in process.command or _is_of_live_run(pid):
            continue
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(processes.start_time(process)))
        holder = f"pid {pid} ({process.command[:100]}) of {leases.user_name(uid)} since {since}"
        memory = f", {used >> 20} MiB" if used else ""
        is_ours = uid == os.getuid()
        hint = f"wait for it, or end it on the node: {'' if is_ours else 'sudo '}kill {pid}"
        if is_ours and processes.has_variables(pid, *processes.RANK_VARIABLES):
            hint = f"pylaunch clean --limit {host} lists it if its launcher is gone; {hint}"
        yield protocol.Reason("gpu-busy", f"{gpu} is in use by {holder}{memory}", f"{hint}; {INSIST}gpu.free")


def _is_of_live_run(pid: int) -> bool:
    env = processes.environment(pid)
    run, root = env.get(processes.RUN_MARK, ""), env.get(processes.ROOT_MARK, "")
    try:
        return bool(RUN_ID.match(run)) and run_processes.is_live(NodeRoot(root).run(run))
    except OSError:  # The root belongs to another user, whose run may be live.
        return True


def _report(writing: int, names: list[str]) -> None:
    """Write the answer of NVML to the pipe `writing` and end this process, the child of the agent."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        processes.close_files(keep=(writing,))  # A call that never returns must not keep locks and sockets.
        with os.fdopen(writing, "wb") as pipe:
            for each in itertools.chain(nvml_facts(names), ({},)):
                pipe.write(json.dumps(each).encode() + b"\n")
                pipe.flush()
    finally:
        os._exit(0)
