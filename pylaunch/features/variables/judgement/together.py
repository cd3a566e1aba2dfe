"""Judges variables by each other: contradictions, and what one makes pointless in another. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pylaunch.features.variables.judgement import frameworks, nccl
from pylaunch.features.variables.judgement.kinds import Number
from pylaunch.features.variables.judgement.lint import lint
from pylaunch.model.setting import Circumstances, LintFinding, LintLevel, Setting, Source, VariablePlace

Settings = Mapping[str, Setting]
"""Effective setting by name."""

_YES = ("1", "true", "yes", "y", "t", "on")
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
    together = [finding for rule in _RULES for finding in rule(held)]
    return (*lint(settings, known), *twice, *together, *_loopback(held, known))


def _finding(severity: LintLevel, setting: Setting, message: str, instead: str | None, source: Source) -> LintFinding:
    return LintFinding(severity, setting.where, f"{setting.name}={setting.value}", message, instead, source)


def _on(held: Settings, name: str) -> bool:
    return name in held and held[name].value.lower() in _YES


def _number(held: Settings, name: str) -> int | None:
    return Number.read(held[name].value) if name in held else None


def _infiniband(held: Settings) -> Iterator[LintFinding]:
    if _number(held, "NCCL_IB_DISABLE") == 1 and "NCCL_IB_HCA" in held:
        text = "adapters are chosen, and NCCL_IB_DISABLE=1 forbids all of them"
        yield _finding(LintLevel.ERROR, held["NCCL_IB_HCA"], text, "one of the two", nccl.GUIDE)
    hca = held.get("NCCL_IB_HCA")
    if hca is not None and not re.match(r"\^?=", hca.value) and re.search(r"\d(:|,|$)", hca.value):
        text = "names are beginnings of names: mlx5_1 is also mlx5_10 … mlx5_19"
        exact = re.sub(r"^(\^?)", r"\1=", hca.value)
        yield _finding(LintLevel.WARNING, hca, text, f"NCCL_IB_HCA={exact}", nccl.GUIDE)
    if "NCCL_IB_TIMEOUT" in held and _number(held, "NCCL_IB_TIMEOUT") == 0:
        text = "0 waits for ever: a broken link is never reported"
        yield _finding(LintLevel.WARNING, held["NCCL_IB_TIMEOUT"], text, "NCCL_IB_TIMEOUT=22", nccl.GUIDE)
    index = _number(held, "NCCL_IB_GID_INDEX")
    if index is not None and index >= 0:
        for name in _GID:
            if name in held:
                text = f"ignored, because NCCL_IB_GID_INDEX={index} is set"
                yield _finding(LintLevel.WARNING, held[name], text, "without NCCL_IB_GID_INDEX", nccl.GUIDE)
        text = "NCCL finds the index on its own since 2.21; a fixed one breaks when the addresses of a node change"
        yield _finding(LintLevel.WARNING, held["NCCL_IB_GID_INDEX"], text, "without it", nccl.GUIDE)


def _limits(held: Settings) -> Iterator[LintFinding]:
    threads, sockets = _number(held, "NCCL_SOCKET_NTHREADS"), _number(held, "NCCL_NSOCKS_PERTHREAD")
    if threads is not None and sockets is not None and threads * sockets > 64:
        text = f"with NCCL_NSOCKS_PERTHREAD={sockets} that is {threads * sockets} sockets; at most 64 are possible"
        yield _finding(LintLevel.ERROR, held["NCCL_SOCKET_NTHREADS"], text, None, nccl.GUIDE)
    low, high = _number(held, "NCCL_MIN_CTAS"), _number(held, "NCCL_MAX_CTAS")
    if low is not None and high is not None and low > high:
        yield _finding(LintLevel.ERROR, held["NCCL_MIN_CTAS"], f"more than NCCL_MAX_CTAS={high}", None, nccl.GUIDE)


def _exclusive(held: Settings) -> Iterator[LintFinding]:
    """Pairs that the documentation says cannot stand together."""
    for name, values, other, others, text in (
        ("NCCL_GRAPH_STREAM_ORDERING", ("0",), "NCCL_GRAPH_MIXING_SUPPORT", ("1",), "not supported with"),
        ("NCCL_MNNVL_ENABLE", ("1",), "NCCL_CUMEM_ENABLE", ("0",), "needs cuMem, against"),
        ("NCCL_NVLS_ENABLE", ("1",), "NCCL_MULTI_RANK_GPU_ENABLE", ("1",), "makes initialization fail with"),
    ):
        if name in held and other in held and held[name].value in values and held[other].value in others:
            message = f"{text} {other}={held[other].value}"
            yield _finding(LintLevel.ERROR, held[name], message, "one of the two", nccl.GUIDE)
    if _number(held, "NCCL_P2P_DISABLE") == 1 and "NCCL_P2P_LEVEL" in held:
        text = "pointless with NCCL_P2P_DISABLE=1"
        yield _finding(LintLevel.WARNING, held["NCCL_P2P_LEVEL"], text, "one of the two", nccl.GUIDE)


def _logging(held: Settings) -> Iterator[LintFinding]:
    level = held.get("NCCL_DEBUG")
    if level is not None and level.place is not VariablePlace.PROCESS and level.value.upper() in ("INFO", "TRACE"):
        text = "kept for every job, it fills the logs of every rank"
        yield _finding(
            LintLevel.WARNING, level, text, "NCCL_DEBUG=WARN, and --env NCCL_DEBUG=INFO for one job", nccl.GUIDE
        )
    subsystems = held.get("NCCL_DEBUG_SUBSYS")
    if subsystems is not None and (level is None or level.value.upper() in ("WARN", "VERSION")):
        text = "filters what NCCL_DEBUG=INFO says, which is not set"
        yield _finding(LintLevel.WARNING, subsystems, text, "NCCL_DEBUG=INFO with it", nccl.GUIDE)
    file = held.get("NCCL_DEBUG_FILE")
    if file is not None and "%p" not in file.value and not file.value.startswith("/dev/"):
        text = "all processes of a node write over each other here"
        yield _finding(LintLevel.WARNING, file, text, f"NCCL_DEBUG_FILE={file.value}.%h.%p", nccl.GUIDE)
    detail = held.get("TORCH_DISTRIBUTED_DEBUG")
    if detail is not None and detail.place is not VariablePlace.PROCESS and detail.value.upper() == "DETAIL":
        text = "checks every collective in every rank, which is slow: for debugging"
        yield _finding(LintLevel.WARNING, detail, text, "without it", frameworks.TORCH_DISTRIBUTED)


def _torch(held: Settings) -> Iterator[LintFinding]:
    names = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
    blocking = next((held[name] for name in names if _on(held, name)), None)
    recorder = next((held[name] for name in _RECORDER if name in held and held[name].value not in ("0", "false")), None)
    if blocking is not None and recorder is not None:
        text = f"makes {recorder.name} do nothing: with blocking wait there is no watchdog to dump anything"
        yield _finding(LintLevel.ERROR, blocking, text, "one of the two", frameworks.TORCH_CODE)
    for old, new, source in (
        ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", frameworks.TORCH_CUDA),
        ("NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING", frameworks.TORCH_NCCL),
        ("NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT", frameworks.TORCH_NCCL),
        ("NCCL_DESYNC_DEBUG", "TORCH_NCCL_DESYNC_DEBUG", frameworks.TORCH_NCCL),
    ):
        if old in held and new in held:
            yield _finding(LintLevel.WARNING, held[old], f"set together with {new}", f"{new} alone", source)


def _jax(held: Settings) -> Iterator[LintFinding]:
    old, new = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"
    if old in held and new in held:
        yield _finding(
            LintLevel.ERROR,
            held[old],
            f"JAX raises ValueError with {new}",
            f"{new} alone",
            frameworks.JAX_MEMORY,
        )
    libraries = held.get("LD_LIBRARY_PATH")
    if libraries is not None and libraries.value and any(name.startswith(("JAX_", "XLA_")) for name in held):
        text = "takes precedence over the CUDA libraries that JAX's wheels bring"
        yield LintFinding(
            LintLevel.WARNING, libraries.where, "LD_LIBRARY_PATH", text, "without it", frameworks.JAX_INSTALL
        )


def _loopback(held: Settings, known: Circumstances) -> Iterator[LintFinding]:
    if known.machines is None or known.machines < 2:
        return
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        if name in held and held[name].value.removeprefix("=") == "lo":
            text = f"no other machine can be reached over lo, and these are {known.machines}"
            yield _finding(LintLevel.ERROR, held[name], text, "the interface that leads to the other nodes", nccl.GUIDE)


_RULES: tuple[Callable[[Settings], Iterator[LintFinding]], ...] = (
    _infiniband,
    _limits,
    _exclusive,
    _logging,
    _torch,
    _jax,
)
