"""Facts that explain a failure or a hang, as a node reports them."""

from __future__ import annotations

import signal

from pylaunch.base.dataclass import dataclass
from pylaunch.protocol.examination import UNASKED

SIGNALLED = "the agent received a signal to end"
"""End of the reason of a stop by SIGTERM, as from Slurm at the end of its job, or at a shutdown."""

SIGNALS_TO_ALL = (signal.SIGTERM, signal.SIGHUP)
"""Signals to all processes of a user at a shutdown or a logout: SIGHUP comes right after SIGTERM (systemd.kill(5))."""


@dataclass(frozen=True)
class OutOfMemory:
    """The kernel killed a process for lack of memory around the time a rank ended."""

    certain: bool
    """The killed process was this rank; otherwise that is likely."""

    limit: int
    """Memory limit in bytes; for "outside", the least memory that the host had available."""

    of: str
    """Owner of the limit: "cgroup", "host", or "outside": a container or job around the node has it."""


@dataclass(frozen=True)
class RankEnd:
    """End of one rank, or of the launcher of a node (then `rank` is None)."""

    rank: int | None
    host: str
    exit_code: int | None
    signal: int | None
    """Exactly one of `exit_code` and `signal` is set."""

    time: float
    """Seconds since the epoch: on the node's clock, when it ended; on the controller's, see `run_follower.time_of`."""

    stopped: bool
    """pylaunch or the launcher had sent it a signal; on the controller: `obeyed`."""

    last_lines: tuple[str, ...] = ()
    """Last lines of stderr, or of stdout where stderr is empty."""

    error: str = ""
    """Exception of the rank and its place: "RuntimeError: loss is NaN (train.py:12)".

    Of a rank that exited with code 0: one that nobody caught, in any thread.
    """

    step: int | None = None
    """Last step that it marked."""

    symptom: str = ""
    """Effect of other ranks, "lost the connection to another rank"; "" for an end with a cause of its own."""

    out_of_memory: OutOfMemory | None = None
    """Kill for lack of memory at that moment."""

    uncertainty_s: float = 0.0
    """Uncertainty of the correction of `time`."""

    raised_at: float = 0.0
    """Time at which the rank wrote its exception, its last line, on the clock of the node; 0 is unknown."""

    terminated_at: float = 0.0
    """Time of the first SIGTERM to ranks of the node, on its clock; 0 if there was none."""

    @property
    def obeyed(self) -> bool:
        """True if it ended because of the signal: one that had written its exception before was about to exit."""
        return self.stopped and not (self.exit_code == 1 and 0.0 < self.raised_at < self.terminated_at)

    @property
    def failed(self) -> bool:
        """True if it failed on its own."""
        return self.exit_code != 0 and not self.stopped

    @property
    def hides_failure(self) -> bool:
        """True if it exited with code 0 after an exception that nobody caught."""
        return self.exit_code == 0 and bool(self.error) and not self.stopped

    @property
    def who(self) -> str:
        """Name for messages: "rank 3 on n2"."""
        return f"the launcher on {self.host}" if self.rank is None else f"rank {self.rank} on {self.host}"


@dataclass(frozen=True)
class RankState:
    """State of a rank that had not ended when its node began to stop."""

    rank: int
    state: str
    """State letter of /proc/PID/stat; T if any process of the rank is stopped; "" is unknown."""

    silent_s: float | None
    """Seconds since the rank last wrote a line; None when it wrote none."""

    step: int | None
    error: str = ""
    """Exception that it has reported, or that is its last line; "" without one."""

    symptom: str = ""
    """Effect of other ranks in its last lines, as in `RankEnd`: it has failed and not ended yet."""


@dataclass(frozen=True)
class KernelEvent:
    """A message of the kernel since the node prepared the run."""

    kind: str
    """Kind in `base/kernel_log.py`."""

    time: float
    """On the clock of `HostEvidence.time`, to one second."""

    text: str
    device: str = ""
    code: int | None = None
    """Number of an Xid or SXid."""

    pid: int | None = None
    rank: int | None = None
    """Rank whose process has this pid."""


@dataclass(frozen=True)
class StuckConnection:
    """A TCP connection of a rank, or of the launcher, whose peer does not acknowledge."""

    rank: int | None
    """None for the launcher, and for a connection whose process has ended."""

    peer: str
    """Address of the other end without port."""

    peer_port: int
    send_queue: int
    """Bytes that the peer has not acknowledged."""

    retransmits: int
    """Retransmissions that timed out in a row, without an answer of the peer's kernel."""

    local_port: int
    """Port of this end."""


@dataclass(frozen=True)
class HostEvidence:
    """Facts of a node when it began to stop, or on request; differences are since the preparation of the run."""

    host: str
    """Set by the controller."""

    time: float
    """Seconds since the epoch: on the clock of the node, until the controller takes out its offset."""

    uncertainty_s: float
    """Uncertainty of that correction."""

    kernel: tuple[KernelEvent, ...] = ()
    stuck: tuple[StuckConnection, ...] = ()
    addresses: tuple[str, ...] = ()
    """IP addresses of this node, without loopback."""

    clock_step_s: float = 0.0
    """Seconds by which the node's clock was set forward (or back) since the preparation."""

    missing: tuple[str, ...] = ()
    """Facts that could not be read, with the reason."""

    serial: int = UNASKED
    """`Examine.serial`, or UNASKED when the node began to stop."""
