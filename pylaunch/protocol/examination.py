"""View of a rank at one moment: its process, stacks and collectives, as its agent reports them.

Lists and texts are bounded where the agent reads the rank, and again where the controller decodes the message.
"""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass, field

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
"""Different places in the code of one view."""

MOST_CHILDREN = 16
MOST_CHILD_THREADS = 8
MOST_WAITS = 8
LONGEST_TEXT = 300
"""Characters of a name, a path or a note."""

LARGEST_COUNT = 1 << 62
MEETING = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
"""Variables by which ranks meet."""


@dataclass(frozen=True)
class ExaminedFrame:
    """A place in Python code."""

    function: str
    path: str
    line: int


@dataclass(frozen=True)
class ExaminedThread:
    """Python stack of one thread."""

    name: str
    is_main: bool
    frames: list[int]
    """Indices in `RankExamined.frames`, innermost first."""


@dataclass(frozen=True)
class ExaminedGroup:
    """A process group of the rank."""

    name: str
    description: str
    ranks: list[int]


@dataclass(frozen=True)
class ExaminedCollective:
    """An entry of the flight recorder."""

    group: str
    sequence: int
    operation: str
    input_sizes: list[list[int]]
    output_sizes: list[list[int]]
    dtypes: list[str]
    is_retired: bool
    is_p2p: bool = False
    age_s: float | None = None
    call_site: list[int] = field(default_factory=list)
    """Indices in `RankExamined.frames`, innermost first."""


@dataclass(frozen=True)
class ExaminedOverride:
    """A variable of `MEETING` with another value than the agent gave it."""

    name: str
    given: str
    used: str
    is_argument: bool = False
    """The script passed `used` to torch; else it is in the environment of the process."""


@dataclass(frozen=True)
class ExaminedChild:
    """A process that the rank started, or a process of that."""

    pid: int
    name: str
    """Name of its program or of its main thread, as the kernel has it: 15 characters."""

    state: str
    cpu_s: float
    waits: list[str] = field(default_factory=list)
    """System calls of its threads, each once; "running" or "unknown" for threads in none."""

    threads: list[ExaminedThread] = field(default_factory=list)
    """From py-spy."""

    note: str = ""


@dataclass(frozen=True)
class RankExamined:
    """View of one rank."""

    rank: int
    serial: int
    """`Examine.serial`, or UNASKED."""

    time: float
    pid: int
    """The process that answered, or the first one of the rank."""

    state: str
    cpu_s: float
    source: str
    """Origin of the stacks: one of SOURCES."""

    note: str = ""
    frames: list[ExaminedFrame] = field(default_factory=list)
    threads: list[ExaminedThread] = field(default_factory=list)
    groups: list[ExaminedGroup] = field(default_factory=list)
    collectives: list[ExaminedCollective] = field(default_factory=list)
    """The last ones, oldest first."""

    wchan: str = ""
    syscall: str = ""
    silent_s: float | None = None
    step: int | None = None
    main_cpu_s: float | None = None
    main_switches: int | None = None
    """Number of times that its main thread has waited in the kernel."""

    moved: int | None = None
    """Bytes that its processes read and wrote before they were asked, if the request is about progress."""

    overrides: list[ExaminedOverride] = field(default_factory=list)

    age_s: float | None = None
    """Seconds since the Python program of the rank began."""

    outside: list[str] = field(default_factory=list)
    """Collectives that it called of groups that it is not in."""

    children: list[ExaminedChild] = field(default_factory=list)
    child_count: int = 0
    """Number of all children."""


SOURCES = ("helper", "signal", "py-spy", "")


@dataclass(frozen=True)
class Examined:
    """Every rank of the node that runs has been examined."""

    serial: int
    ranks: list[int]
