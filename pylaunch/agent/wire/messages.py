"""What the controller and the agent say to each other: one JSON object a line, in both directions.

    controller                          agent (one per node and run)
                       ◄── Hello        on every connection, before anything else
    Ping               ──►              also again and again: a controller that is silent counts as gone
                       ◄── Pong         the clock of the node, to correct times with
    Prepare(NodeTask)  ──►
                       ◄── Ready | Refused
    TryPeers(ports)    ──►
                       ◄── PeersTried   which of those ports it can connect to
    Release(at)        ──►
                       ◄── Released, then RankStarted for each rank
    Follow(offsets)    ──►
                       ◄── Output …     as the log files grow, also after a re-attach; CaughtUp once, Skipped at times
                       ◄── RankEnded … , LauncherEnded
    Stop(grace, why)   ──►
                       ◄── Finished     all ended, nothing left (or what was left); the agent then exits

A connection that ends before Release aborts the run on that node; one that ends later detaches and changes nothing
(unless the task says `ends_with_controller`). What agents say to each other is in `seal`.
Every time is seconds since the epoch on the clock of whoever sends it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pylaunch.agent.shared.untrusted_json import UntrustedJsonError, parse_object
from pylaunch.agent.wire import fields
from pylaunch.agent.wire.fields import WireError as WireError
from pylaunch.agent.wire.fields import excerpt
from pylaunch.agent.wire.node_task import LAUNCHER_FILES as LAUNCHER_FILES
from pylaunch.agent.wire.node_task import RANK_ENTRY as RANK_ENTRY
from pylaunch.agent.wire.node_task import TREE as TREE
from pylaunch.agent.wire.node_task import Need as Need
from pylaunch.agent.wire.node_task import NodeTask as NodeTask
from pylaunch.agent.wire.node_task import RankTask as RankTask
from pylaunch.agent.wire.usage_report import StepMark as StepMark
from pylaunch.agent.wire.usage_report import Usage as Usage

PROTOCOL = 1
"""Raised when a message changes its meaning. The two sides refuse to talk across different numbers."""

MAX_LINE = 1 << 20
"""Longest line either side accepts, in bytes."""

SINCE = "since"
"""In `Hello.knows`: obeys `Follow.since`."""

MAX_BODY = 4 * MAX_LINE
"""Longest message that is decoded: a task in a file has no newline to be bounded by."""

T = TypeVar("T")


@dataclass(frozen=True)
class Reason:
    """Why a node refuses: a stable code, what was found, and what to type next ("" if there is nothing to type)."""

    code: str
    message: str
    hint: str = ""


# Controller → agent


@dataclass(frozen=True)
class Ping:
    serial: int


@dataclass(frozen=True)
class Prepare:
    task: NodeTask
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Further variables of the ranks and the launcher. The agent keeps their values in its memory alone."""


@dataclass(frozen=True)
class TryPeers:
    """Try to connect to the agents of these hosts: ephemeral ports, as those that ranks listen on."""

    ports: dict[str, int]


@dataclass(frozen=True)
class Release:
    at: float
    """When to start, on the node's clock; a time already past means now, one further than 5 s off is refused as now."""

    ports: dict[str, int] = field(default_factory=dict)
    """Where the agents of this run listen for each other, by host."""

    key: str = field(default="", repr=False)
    """The secret, in hexadecimal, with which they seal what they say. Neither side writes it down."""

    rendezvous_port: int | None = None
    """The rendezvous port that a node has chosen; None when nobody had to."""


@dataclass(frozen=True)
class Follow:
    """Send Output as it comes, and what has become of the ranks so far (RankStarted, RankEnded, …) before it.

    Who released a run is told Finished only once it has said what it follows, so that a short run loses no output.
    """

    offsets: dict[str, int]
    """Where to go on: stream name → byte offset. A stream not named starts at 0."""

    streams: list[str] | None
    """Only these streams; None is all, [] is none."""

    tail: int | None = None
    """Begin with so many last lines of a stream that `offsets` does not name; None is with the first."""

    lag: int | None = None
    """Skip to the newest where the reader is more than so many bytes behind; None is never."""

    usage_s: float = 0.0
    """Tell Usage every so many seconds; 0 is never."""

    since: float | None = None
    """Leave away what was written before this time, as exactly as the node knows (`times`); None is nothing."""


@dataclass(frozen=True)
class Stop:
    grace_s: float
    reason: str
    by_hand: bool = False
    """A person asks for the end of the run; else the controller stops it because of a failure."""


# Agent → controller


@dataclass(frozen=True)
class Hello:
    protocol: int
    version: str
    """Content hash of the agent archive."""

    run: str
    host: str
    """What the node calls itself (`uname -n`)."""

    pid: int
    uid: int
    python: str
    phase: str
    """One of PHASES."""

    time: float
    running: list[int]
    """Ranks that run now."""

    knows: list[str] = field(default_factory=list)
    """What it can do that agents of earlier versions cannot."""


PHASES = ("new", "prepared", "running", "stopping", "finished")


@dataclass(frozen=True)
class Pong:
    serial: int
    time: float


@dataclass(frozen=True)
class Ready:
    seconds: float
    """What preparing took."""

    removed: list[str]
    """What earlier, dead runs had left here and is gone now, one phrase each."""

    essentials: dict[str, str]
    """What must be the same on every node of a run; "" for what is not there."""

    port: int = 0
    """Where this agent listens for those of the other nodes; 0 when there are none."""

    notes: list[str] = field(default_factory=list)
    """What a person should know and no run is refused for."""

    rendezvous_port: int | None = None
    """The rendezvous port, where this node was to choose it."""

    libraries: dict[str, str] = field(default_factory=dict)
    """Version of each distribution in the environment of the ranks, by name; {} where there is none."""


@dataclass(frozen=True)
class PeersTried:
    """The answer to TryPeers."""

    ends: dict[str, str]
    """Host → how the connection ended: one of `neighbours.ENDS`."""


@dataclass(frozen=True)
class Refused:
    reasons: list[Reason]


@dataclass(frozen=True)
class Released:
    time: float
    """When the first process was exec'd."""


@dataclass(frozen=True)
class RankStarted:
    rank: int
    pid: int
    time: float


@dataclass(frozen=True)
class Output:
    """Whole lines a rank (or the launcher) wrote."""

    stream: str
    """`<rank>.out`, `<rank>.err`, `launcher.out` or `launcher.err`: also the name of the log file on the node."""

    offset: int
    """Byte offset just after this text: what to pass to Follow to go on from here."""

    text: str
    time: float


@dataclass(frozen=True)
class Skipped:
    """Bytes of a log that are not sent: the reader was too slow (`Follow.lag`), or they are no longer there."""

    stream: str
    start: int
    offset: int
    """Byte offset just after: what to pass to Follow to go on from here."""

    path: str
    """The log file on the node."""


@dataclass(frozen=True)
class CaughtUp:
    """All that was in the followed logs when Follow came has been sent."""


@dataclass(frozen=True)
class OutOfMemory:
    """The kernel ended a process for lack of memory when a rank ended."""

    certain: bool
    """It was this rank; else it is only likely."""

    limit: int
    """Bytes that there were."""

    of: str
    """Whose limit that is: "cgroup" or "host"."""


@dataclass(frozen=True)
class RankEnded:
    rank: int
    exit_code: int | None
    """None when a signal ended it."""

    signal: int | None
    time: float
    last_lines: list[str]
    """Its last lines, stderr if there are any, else stdout."""

    stopped: bool
    """True when it ended because pylaunch (or its launcher) told it to."""

    error: str = ""
    """The exception it left behind, "RuntimeError: loss is NaN (train.py:12)"; "" when it left none."""

    step: int | None = None
    """The last step it marked with `pylaunch.runtime.step`."""

    symptom: str = ""
    """What other ranks did to it, "lost the connection to another rank"; "" for an end with a cause of its own."""

    out_of_memory: OutOfMemory | None = None
    """The kernel ended processes for lack of memory at that moment; None where it did not."""


@dataclass(frozen=True)
class RankState:
    """A rank that had not ended when its node began to stop."""

    rank: int
    state: str
    """The letter of /proc/PID/stat: R, S, D, T, t, Z …; T where any process of the rank is stopped. "" is unknown."""

    silent_s: float | None
    """Seconds since it last wrote a line; None when it wrote none."""

    step: int | None
    """The last step it had marked."""


@dataclass(frozen=True)
class LauncherEnded:
    exit_code: int | None
    signal: int | None
    time: float
    last_lines: list[str]
    stopped: bool = False
    """The node was stopping when it ended."""

    symptom: str = ""


@dataclass(frozen=True)
class Stopping:
    """The node stops its part of the run. Sent again when a person asks for the end of a run that stops already."""

    reason: str
    time: float
    by_hand: bool = False
    """A person asked for it, through this node or another one."""

    ranks: list[RankState] = field(default_factory=list)
    """Ranks of this node that had not ended of their own then."""


@dataclass(frozen=True)
class PeersUnheard:
    """Agents of this run that this one cannot exchange words with; the controller is the only way between them."""

    hosts: list[str]


@dataclass(frozen=True)
class Finished:
    leftovers: list[str]
    """What is still there after KILL, one phrase each; [] is the proof of clean."""

    checked: list[str]
    """What was looked at to say so: processes by run mark, the rendezvous port, device leases."""

    time: float


@dataclass(frozen=True)
class Failed:
    """The agent itself cannot go on; its run on this node is over."""

    message: str
    code: str = ""
    """NO_RUN, AGENT_STOPPED, or "" for everything that only the message tells."""


NO_RUN = "no-run"
AGENT_STOPPED = "agent-stopped"
"""The agent got SIGSTOP: it is there and cannot answer."""


TO_AGENT = (Ping, Prepare, TryPeers, Release, Follow, Stop)
FROM_AGENT = (
    Hello, Pong, Ready, PeersTried, Refused, Released, RankStarted, Output, Skipped, Usage, CaughtUp, RankEnded,
    LauncherEnded, Stopping, PeersUnheard, Finished, Failed,
)  # fmt: skip
_PARTS: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (NodeTask, RankTask, Need, OutOfMemory, RankState, Reason, StepMark)
}
_BY_NAME: dict[str, type[Any]] = {cls.__name__: cls for cls in TO_AGENT + FROM_AGENT}


def encode(message: object) -> bytes:
    """`message` as one line. Raises WireError for something that is not a message."""
    name = type(message).__name__
    if _BY_NAME.get(name) is not type(message):
        raise WireError(f"not a message: {message!r}")
    body = dataclasses.asdict(message)  # type: ignore[call-overload]  # one of the dataclasses above
    return json.dumps({"type": name, **body}, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Any:
    """The message in `line`. Unknown fields are ignored, so that a newer peer may say more.

    Raises WireError when the line is no JSON object, of no known type, lacks a field or has one of the wrong kind.
    """
    try:
        body = parse_object(line, MAX_BODY)
    except UntrustedJsonError as error:
        raise WireError(f"expected a JSON object ({error}), got {excerpt(line)}") from None
    name = body.get("type")
    cls = _BY_NAME.get(name) if isinstance(name, str) else None
    if cls is None:
        raise WireError(f"expected a message, got {excerpt(line)}")
    return from_fields(cls, body)


def from_fields(cls: type[T], body: dict[str, Any]) -> T:
    """A `cls` from a JSON object, nested ones included. Raises WireError for a field missing or of the wrong kind."""
    return fields.read(cls, body, _PARTS)
