"""End of a rank in words, and what it shows: a failure of its own, or that of others. Pure.

The agent recognises texts of victims (`agent/evidence/symptoms.py`), and the end has a symptom then.
`sounds_like_a_victim` is for texts that it does not know.
"""

import re
from signal import Signals

from pylaunch.model.text.quantity import shown_size
from pylaunch.protocol.node_evidence import OutOfMemory, RankEnd

_PREFIX = re.compile(r"^\[rank\d+\]:\s?")
_STORAGE = re.compile(
    r"\[Errno (?:5|28|30|116|121|122)\]|Input/output error|No space left on device|Read-only file system"
    r"|Stale file handle|Disk quota exceeded|Remote I/O error|is full \(\d+ KiB|has no inodes left|PytorchStreamWriter"
)
_GPU = re.compile(r"CUDA error: (?:uncorrectable|unknown|no CUDA-capable device)")
_OF_KERNELS = re.compile(
    r"CUDA error: (?:an illegal|unspecified launch|misaligned|device-side assert)"
    r"|CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR)"
)
"""Texts that a fault of the program causes as well as one of the GPU."""

_MEMORY = re.compile(r"OutOfMemoryError|CUDA out of memory|MemoryError|Cannot allocate memory|DefaultCPUAllocator")
_ABOUT_OTHERS = re.compile(
    r"[Cc]onnection|[Tt]imed? ?out|[Tt]imeout|unreachable|reset by|refused|[Bb]roken pipe|rendezvous|heartbeat"
    r"|\bEOF\b(?! when reading a line)|NCCL|[Gg]loo|c10d|ProcessGroup|peer"
)

_OF_BUILD = re.compile(r"have NCCL built in|only supported with GPUs|(?i:unknown c10d backend|unsupported .*backend)")
"""Texts about a backend that this torch or this node does not have."""

_OF_PROGRAM = re.compile(r"(?:ModuleNotFound|Import|Attribute|Name|Syntax|Indentation)Error\b")
"""Begin of errors that every rank gets at the same line, unless its node or its data differ."""

_OF_LIMITS = (Signals.SIGXCPU, Signals.SIGXFSZ, Signals.SIGSYS)
"""Signals of the kernel to a process that reached a limit, or made a system call that a filter forbids."""


def described(end: RankEnd) -> str:
    """Return a verb phrase: "exited with code 1", "was killed by SIGKILL after step 20: likely out of memory (…)".

    An end with code 0 that hides a failure shows it: "exited with code 0 after ValueError: loss is NaN".
    """
    if end.hides_failure:
        return f"exited with code 0 after {end.error}"
    after = "" if end.step is None or end.exit_code == 0 else f" after step {end.step}"
    memory = "" if end.out_of_memory is None else _memory(end.out_of_memory)
    return ": ".join(filter(None, (f"{_status(end)}{after}", "; ".join(filter(None, (end.error, memory))))))


def without_rank(line: str) -> str:
    """Return a line without the prefix that torch puts before the lines of a traceback."""
    return _PREFIX.sub("", line)


def _status(end: RankEnd) -> str:
    if end.signal is None:
        return f"exited with code {end.exit_code}"
    if end.signal == Signals.SIGINT:
        return "ended with SIGINT (Ctrl-C, kill -INT) or KeyboardInterrupt"
    try:
        return f"was killed by {Signals(end.signal).name}"
    except ValueError:
        return f"was killed by signal {end.signal}"


def _memory(kill: OutOfMemory) -> str:
    likely = "" if kill.certain else "likely "
    if kill.of == "outside":
        left = f"the host had {shown_size(kill.limit)} available"
        return f"{likely}out of memory by a limit outside of this node, of its container or job ({left})"
    limit = "memory" if kill.of == "host" else "limit"
    return f"{likely}out of memory ({limit} of the {kill.of}: {shown_size(kill.limit)})"


# Kinds of failures


def kind_of(end: RankEnd) -> str:
    """Return the kind of a failure that no other rank caused, one of `cause_kinds.KINDS`."""
    if end.out_of_memory is not None and end.out_of_memory.certain:
        return "out-of-memory"
    if _STORAGE.search(end.error):
        return "storage"
    if _MEMORY.search(end.error) or end.out_of_memory is not None:
        return "out-of-memory"
    if _GPU.search(end.error):
        return "gpu"
    if end.signal in _OF_LIMITS:
        return "limit"
    if end.signal is not None and end.signal not in (Signals.SIGABRT, Signals.SIGINT):
        return "rank-killed"
    return "rank-failed"


def may_be_of_its_gpu(end: RankEnd) -> bool:
    """Return True for an error of GPU kernels, with which a broken GPU shows as well as a mistake of the program."""
    return bool(_OF_KERNELS.search(end.error))


def sounds_like_a_victim(end: RankEnd) -> bool:
    """Return True for an exception about other ranks or the network that no rule knows as a symptom."""
    if end.signal is not None and end.signal != Signals.SIGABRT:
        return False
    if _STORAGE.search(end.error) or _OF_BUILD.search(end.error):
        return False
    return bool(_ABOUT_OTHERS.search(end.error))


def may_await_others(end: RankEnd) -> bool:
    """Return True for an error of the program or of what is installed, in which nothing is about one rank."""
    return bool(_OF_BUILD.search(end.error) or _OF_PROGRAM.match(end.error))
