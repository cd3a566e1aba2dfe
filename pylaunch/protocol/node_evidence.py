"""Facts that explain a failure or a hang, as a node reports them."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass, field
from pylaunch.protocol.examination import UNASKED


@dataclass(frozen=True)
class OutOfMemory:
    """The kernel killed a process for lack of memory around the time a rank ended."""

    certain: bool
    """The killed process was this rank; otherwise that is likely."""

    limit: int
    """Memory limit in bytes."""

    of: str
    """Owner of the limit: "cgroup" or "host"."""


@dataclass(frozen=True)
class RankState:
    """State of a rank that had not ended when its node began to stop."""

    rank: int
    state: str
    """State letter of /proc/PID/stat; T if any process of the rank is stopped; "" is unknown."""

    silent_s: float | None
    """Seconds since the rank last wrote a line; None when it wrote none."""

    step: int | None


@dataclass(frozen=True)
class KernelMessage:
    """A message of the kernel since the node prepared the run."""

    kind: str
    """Kind in `base/kernel_log.py`."""

    time: float
    """On the node's clock, to one second."""

    text: str
    device: str = ""
    pid: int | None = None
    code: int | None = None
    rank: int | None = None
    """Rank whose process has this pid."""


@dataclass(frozen=True)
class RankSocket:
    """A TCP connection of a rank, or of the launcher, that does not make progress."""

    rank: int | None
    """None for the launcher, and for a connection whose process has ended."""

    state: str
    """State of TCP: ESTABLISHED, SYN_SENT, FIN_WAIT1 …"""

    local: str
    """Local address without port."""

    local_port: int
    peer: str
    """Address of the other end without port."""

    peer_port: int
    send_queue: int
    """Bytes that the peer has not acknowledged."""

    receive_queue: int
    """Bytes that this process has not read."""

    retransmits: int
    """Retransmissions that timed out in a row, without an answer of the peer's kernel."""

    probes: int = 0
    """Probes of a peer whose kernel answers, and whose process does not read."""


@dataclass(frozen=True)
class NodeEvidence:
    """Facts of the node when it began to stop, or on request; differences are since the preparation of the run."""

    time: float
    seconds: float
    """Duration of the collection."""

    kernel: list[KernelMessage] = field(default_factory=list)
    sockets: list[RankSocket] = field(default_factory=list)
    connections: int = 0
    """TCP connections that the ranks and the launcher have."""

    addresses: list[str] = field(default_factory=list)
    """IP addresses of this node, without loopback."""

    rises: dict[str, int] = field(default_factory=dict)
    """Increases of counters by name: "eth0 rx_errors", "memory oom_kill", "gpu3 ecc_uncorrected"."""

    gauges: dict[str, float] = field(default_factory=dict)
    """Values at that time: "memory available" in bytes, "memory some" (pressure of the last 10 s in percent)."""

    clock_step_s: float = 0.0
    """Seconds by which the node's clock was set forward (or back) since the preparation."""

    missing: list[str] = field(default_factory=list)
    """Facts that could not be read, with the reason."""

    serial: int = UNASKED
    """`Examine.serial`, or UNASKED when the node began to stop."""
