"""View of a rank at one moment: its process, stacks and collectives, as its agent reports them.

Lists and texts are bounded where the agent reads the rank, and again where the controller decodes the message.
"""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass

UNASKED = 0
"""Serial of views that an agent takes before it stops its ranks; a request has a higher one."""

MOST_THREADS = 64
MOST_STACK_FRAMES = 64
MOST_SITE_FRAMES = 8
MOST_COLLECTIVES = 300
MOST_GROUPS = 256
MOST_GROUP_RANKS = 4096
MOST_TENSORS = 8
MOST_FRAMES = 4096
"""Different places in the code of one rank."""

LONGEST_TEXT = 300
"""Characters of a name, a path or a note."""

STOPPED_STATES = ("T", "t")
"""State letters of a process that a signal or a debugger stopped."""


@dataclass(frozen=True)
class Frame:
    """A place in Python code."""

    function: str
    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({self.path}:{self.line})"


@dataclass(frozen=True)
class ThreadStack:
    """Python frames of one thread."""

    name: str
    is_main: bool
    frames: tuple[Frame, ...]
    """Innermost first."""


@dataclass(frozen=True)
class ProcessGroup:
    """A group of ranks that call collectives together."""

    name: str
    """Name in torch, which may differ between ranks and versions; "0" is usually the default group."""

    description: str
    ranks: tuple[int, ...]
    """Global ranks; () if the rank does not know them."""


@dataclass(frozen=True)
class Collective:
    """One entry of a rank's flight recorder."""

    group: str
    """`ProcessGroup.name`."""

    sequence: int
    """Number of the collective in its group, from 1; 0 for point-to-point operations."""

    operation: str
    """Operation without its backend: "all_reduce", "broadcast"."""

    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    is_retired: bool
    """It is over, well or not: gloo retires an operation that failed, too."""

    is_p2p: bool = False
    age_s: float | None = None
    """Seconds since the rank called it; None if unknown."""

    call_site: tuple[Frame, ...] = ()
    """Frames of the call, innermost first; () if the recorder kept none."""


@dataclass(frozen=True)
class RankView:
    """A rank at one moment. The controller sets `host`; all else is what the rank or its node says: data."""

    rank: int
    host: str
    time: float
    """Seconds since the epoch: on the clock of the node, until the controller takes out its offset."""

    uncertainty_s: float
    """Uncertainty of that correction."""

    pid: int
    """The process that answered, or the first one of the rank."""

    state: str
    """State letter of /proc/PID/stat: R, S, D, T, t, Z …; "" if the process is gone."""

    cpu_s: float
    """Processor time of its process and the children it has, in seconds."""

    source: str
    """Origin of the stacks: "helper" (the rank's helper thread), "signal" (faulthandler) or "" (none)."""

    note: str = ""
    """Reason why stacks or collectives are missing: "not a Python program", "no answer in 0.5 s"."""

    threads: tuple[ThreadStack, ...] = ()
    groups: tuple[ProcessGroup, ...] = ()
    collectives: tuple[Collective, ...] = ()
    """Last entries of the flight recorder, oldest first."""

    wchan: str = ""
    """Kernel function in which its main thread waits; "" if unknown or not permitted."""

    syscall: str = ""
    """System call of its main thread by name or number; "" if unknown or not permitted."""

    silent_s: float | None = None
    """Seconds since its last output; None if it wrote none."""

    step: int | None = None
    """Last step that it marked."""

    main_cpu_s: float | None = None
    """Processor time of its main thread, in seconds; None if unknown."""

    main_switches: int | None = None
    """Number of times that its main thread has waited in the kernel; None if unknown."""

    moved: int | None = None
    """Bytes that its processes have read and written, apart from `recv` and `send`; None if unknown."""

    serial: int = UNASKED
    """`Examine.serial`, or UNASKED."""

    is_other_rank: bool = False
    """torch has another rank or world size there than the run: the script set it."""

    handles: str = ""
    """Exception that its main thread handles, or that waits for a `finally`: "ValueError: bad batch (train.py:9)"."""


SOURCES = ("helper", "signal", "")


@dataclass(frozen=True)
class Examined:
    """Every rank of the node that runs has been examined."""

    serial: int
