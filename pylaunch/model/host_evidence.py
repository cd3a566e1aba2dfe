"""Facts of a host that explain a failure or a hang. All of it is what the host says."""

from __future__ import annotations

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, field


@dataclass(frozen=True)
class KernelEvent:
    """A message of the kernel since the preparation of the run."""

    kind: str
    """Kind in `base/kernel_log.py`."""

    time: float
    """On the controller's clock, to one second."""

    text: str
    device: str = ""
    code: int | None = None
    """Number of an Xid or SXid."""

    pid: int | None = None
    rank: int | None = None
    """Rank whose process is meant."""


@dataclass(frozen=True)
class StuckConnection:
    """A TCP connection of a rank that does not make progress."""

    rank: int | None
    """None for the launcher, and for a connection whose process has ended."""

    state: str
    peer: str
    """Address of the other end."""

    peer_port: int
    send_queue: int
    receive_queue: int
    retransmits: int
    """Retransmissions in a row that nobody acknowledged."""

    probes: int
    """Probes of a peer whose kernel answers, and whose process does not read."""

    local_port: int = 0
    """Port of this end; 0 in records of earlier versions."""


@dataclass(frozen=True)
class HostEvidence:
    """Facts of one host. Differences are relative to the preparation of the run."""

    host: str
    time: float
    """On the controller's clock, the host's clock offset taken out."""

    uncertainty_s: float
    """Uncertainty of that correction."""

    kernel: tuple[KernelEvent, ...] = ()
    stuck: tuple[StuckConnection, ...] = ()
    connections: int = 0
    """TCP connections that its ranks have."""

    addresses: tuple[str, ...] = ()
    rises: Mapping[str, int] = field(default_factory=dict)
    """Increases of counters by name: "eth0 carrier_changes"."""

    gauges: Mapping[str, float] = field(default_factory=dict)
    """Values by name: "memory available" in bytes, "io full" (pressure of the last 10 s in percent)."""

    clock_step_s: float = 0.0
    """Seconds by which the host's clock was set forward (or back)."""

    missing: tuple[str, ...] = ()
    """Facts that could not be read, with the reason."""
