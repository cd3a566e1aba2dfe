"""Judges variables by each other: contradictions, and what one makes pointless in another. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from pylaunch.features.variables.judgement.catalogue import catalogue, number
from pylaunch.features.variables.judgement.lint import lint
from pylaunch.model.setting import Circumstances, LintFinding, LintLevel, Setting, VariablePlace

Settings = Mapping[str, Setting]
"""Effective setting by name."""

_YES = ("1", "true", "yes", "y", "t", "on")
_OWN_ADDRESSES = ("VLLM_HOST_IP", "SGLANG_HOST_IP", "HOST_IP", "POD_IP")
"""Variables in which a program expects the address of its own node."""

_GID = ("NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM")
_RECORDER = ("TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


def judge(settings: Sequence[Setting], circumstances: Circumstances | None = None) -> tuple[LintFinding, ...]:
    """All findings about `settings`, alone and together. Of a name set twice the first holds, as with NCCL."""
    known = circumstances or Circumstances()
    held: dict[str, Setting] = {}
    twice: list[LintFinding] = []
    for setting in settings:
        first = held.setdefault(setting.name, setting)
        if first is not setting and first.value != setting.value:
            text = f"also set in {first.where}, to another value, and that one holds"
            twice.append(LintFinding(LintLevel.WARNING, setting.where, setting.name, text))
    together = (*_infiniband(held), *_sockets(held), *_logging(held), *_torch(held), *_jax(held))
    return (*lint(settings, known), *twice, *together, *_loopback(held, known))


def _error(setting: Setting, message: str, instead: str) -> LintFinding:
    shown, source = f"{setting.name}={setting.value}", catalogue().sources[setting.name]
    return LintFinding(LintLevel.ERROR, setting.where, shown, message, instead, source)


def _warning(setting: Setting, message: str, instead: str) -> LintFinding:
    shown, source = f"{setting.name}={setting.value}", catalogue().sources[setting.name]
    return LintFinding(LintLevel.WARNING, setting.where, shown, message, instead, source)


def _number(held: Settings, name: str) -> int | None:
    return number(held[name].value) if name in held else None


def _infiniband(held: Settings) -> Iterator[LintFinding]:
    hca, index = held.get("NCCL_IB_HCA"), _number(held, "NCCL_IB_GID_INDEX")
    if hca is not None and _number(held, "NCCL_IB_DISABLE") == 1:
        yield _error(hca, "adapters are chosen, and NCCL_IB_DISABLE=1 forbids all of them", "one of the two")
    if hca is not None and not re.match(r"\^?=", hca.value) and re.search(r"\d(:|,|$)", hca.value):
        exact = re.sub(r"^(\^?)", r"\1=", hca.value)
        text = "names are beginnings of names: mlx5_1 is also mlx5_10 … mlx5_19"
        yield _warning(hca, text, f"NCCL_IB_HCA={exact}")
    if _number(held, "NCCL_IB_TIMEOUT") == 0:
        text = "0 waits for ever: a broken link is never reported"
        yield _warning(held["NCCL_IB_TIMEOUT"], text, "NCCL_IB_TIMEOUT=22")
    if index is not None and index >= 0:
        for name in _GID:
            if name in held:
                text = f"ignored, because NCCL_IB_GID_INDEX={index} is set"
                yield _warning(held[name], text, "without NCCL_IB_GID_INDEX")
        text = "NCCL finds the index on its own since 2.21; a fixed one breaks when the addresses of a node change"
        yield _warning(held["NCCL_IB_GID_INDEX"], text, "without it")


def _sockets(held: Settings) -> Iterator[LintFinding]:
    threads, sockets = _number(held, "NCCL_SOCKET_NTHREADS"), _number(held, "NCCL_NSOCKS_PERTHREAD")
    if threads is not None and sockets is not None and threads * sockets > 64:
        text = f"with NCCL_NSOCKS_PERTHREAD={sockets} that is {threads * sockets} sockets; at most 64 are possible"
        yield _error(held["NCCL_SOCKET_NTHREADS"], text, "fewer of one")


def _logging(held: Settings) -> Iterator[LintFinding]:
    level, file = held.get("NCCL_DEBUG"), held.get("NCCL_DEBUG_FILE")
    if level is not None and level.place is not VariablePlace.PROCESS and level.value.upper() in ("INFO", "TRACE"):
        text = "kept for every job, it fills the logs of every rank"
        yield _warning(level, text, "NCCL_DEBUG=WARN, and --env NCCL_DEBUG=INFO for one job")
    if "NCCL_DEBUG_SUBSYS" in held and (level is None or level.value.upper() in ("WARN", "VERSION")):
        text = "filters what NCCL_DEBUG=INFO says, which is not set"
        yield _warning(held["NCCL_DEBUG_SUBSYS"], text, "NCCL_DEBUG=INFO with it")
    if file is not None and "%p" not in file.value and not file.value.startswith("/dev/"):
        text = "all processes of a node write over each other here"
        yield _warning(file, text, f"NCCL_DEBUG_FILE={file.value}.%h.%p")


def _torch(held: Settings) -> Iterator[LintFinding]:
    names = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
    blocking = next((held[name] for name in names if name in held and held[name].value.lower() in _YES), None)
    recorder = next((held[name] for name in _RECORDER if name in held and held[name].value not in ("0", "false")), None)
    if blocking is not None and recorder is not None:
        text = f"makes {recorder.name} do nothing: with blocking wait there is no watchdog to dump anything"
        yield _error(blocking, text, "one of the two")


def _jax(held: Settings) -> Iterator[LintFinding]:
    old, new = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"
    if old in held and new in held:
        yield _error(held[old], f"JAX raises ValueError with {new}", f"{new} alone")
    libraries = held.get("LD_LIBRARY_PATH")
    if libraries is not None and libraries.value and any(name.startswith(("JAX_", "XLA_")) for name in held):
        text = "takes precedence over the CUDA libraries that JAX's wheels bring"
        yield LintFinding(LintLevel.WARNING, libraries.where, "LD_LIBRARY_PATH", text, "without it")


def _loopback(held: Settings, known: Circumstances) -> Iterator[LintFinding]:
    if known.machines is None or known.machines < 2:
        return
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        if name in held and held[name].value.removeprefix("=") == "lo":
            text = f"no other machine can be reached over lo, and these are {known.machines}"
            yield _error(held[name], text, "the interface that leads to the other nodes")
    for setting in (held[name] for name in _OWN_ADDRESSES if name in held):
        text = f"the address of one machine, on all {known.machines}: each has its own"
        shown, instead = f"{setting.name}={setting.value}", "set it in the program, from the address of the node"
        yield LintFinding(LintLevel.WARNING, setting.where, shown, text, instead)
