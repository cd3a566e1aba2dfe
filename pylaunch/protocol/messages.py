"""Messages between the controller and the agent: one JSON object per line, in both directions.

    controller                          agent (one per node and run)
                       ◄── Hello        on every connection, before anything else
    Ping               ──►              repeated: a controller that sends nothing for a while counts as gone
                       ◄── Pong         carries the clock of the node, from which the controller corrects times
    Prepare(NodeTask)  ──►
                       ◄── Ready | Refused
    TryPeers(ports)    ──►
                       ◄── PeersTried   which of those ports it can connect to
    Release(at)        ──►
                       ◄── Released, then RankStarted for each rank
    Follow(offsets)    ──►
                       ◄── Output …     as the log files grow, also after a re-attach; CaughtUp once, Skipped if slow
                       ◄── RankEnd … of ranks and the launcher, HostEvidence when a failure stops the node
    Examine(serial)    ──►
                       ◄── RankView of each rank that runs (also before a stop), HostEvidence if requested, Examined
    Stop(grace, why)   ──►
                       ◄── Finished     every process has ended, leftovers are listed; the agent then exits

A connection that closes before Release aborts the run on that node. One that closes later detaches and changes nothing,
unless the task sets `ends_with_controller`. Times are seconds since the epoch on the sender's clock.
"""

from __future__ import annotations

import json
from typing import Any

from pylaunch.base.dataclass import dataclass, field
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object
from pylaunch.protocol import fields
from pylaunch.protocol.examination import (
    LONGEST_TEXT,
    Collective,
    Examined,
    Frame,
    ProcessGroup,
    RankView,
    ThreadStack,
)
from pylaunch.protocol.fields import T, WireError, excerpt
from pylaunch.protocol.node_evidence import HostEvidence, KernelEvent, OutOfMemory, RankEnd, RankState, StuckConnection
from pylaunch.protocol.node_task import ContainerTask, MountTask, Need, NodeTask, RankTask
from pylaunch.protocol.progress import (
    Activity,
    CaughtUp,
    Output,
    RankSigns,
    RankStarted,
    Released,
    Skipped,
)

PROTOCOL = 1
"""Increased when a message changes its meaning. Controller and agent refuse a different number."""

MAX_LINE = 1 << 20
"""Longest line that either side accepts, in bytes."""

PAUSE_S = 2.0
"""Time without a look at its connections from which controller and agent count as paused, in seconds."""

MAX_BODY = 4 * MAX_LINE
"""Longest message that is decoded, in bytes: also bounds a task that is read from a file, which has no lines."""


@dataclass(frozen=True)
class Reason:
    """Reason for a refusal: a stable code, what the node found, and the command to run next ("" for none)."""

    code: str
    message: str
    hint: str = ""


# Controller → agent


@dataclass(frozen=True)
class Ping:
    leads: bool
    """The controller decides for the run: the node relies on it when another node is lost."""


@dataclass(frozen=True)
class Prepare:
    task: NodeTask
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Secret variables of the ranks and the launcher. The agent keeps their values in memory only."""


@dataclass(frozen=True)
class TryPeers:
    """Ask the agent to connect to the agents of other hosts, whose ports are ephemeral like those of ranks."""

    ports: dict[str, int]
    """Port by host."""


@dataclass(frozen=True)
class Release:
    at: float
    """Start time on the node's clock; a time in the past means now, one more than 5 s ahead ends the run."""

    ports: dict[str, int] = field(default_factory=dict)
    """Port on which each agent of the run listens for the others, by host."""

    key: str = field(default="", repr=False)
    """Key that authenticates messages between agents, in hexadecimal. Neither side writes it to disk."""

    rendezvous_port: int | None = None
    """Rendezvous port that a node has chosen; None when the plan fixed it."""


@dataclass(frozen=True)
class Follow:
    """Subscribe to events and output. Events so far (RankStarted, RankEnd, …) arrive before the output.

    The agent withholds `Finished` from the releasing controller until it sends `Follow`, so that a short run loses no
    output.
    """

    offsets: dict[str, int]
    """Stream name → byte offset to continue from. Other streams start at 0."""

    streams: list[str] | None
    """Names of the streams to send; None is all, [] is none."""

    tail: int | None = None
    """Number of last lines to begin with, for streams without an offset; None begins with the first line."""

    lag: int | None = None
    """Skip to the newest output when the reader is more than this many bytes behind; None never skips."""

    activity_s: float = 0.0
    """Interval of `Activity` in seconds; 0 is never."""


@dataclass(frozen=True)
class Examine:
    """Request a view of each rank of the node that runs."""

    serial: int
    """From 1; the answers repeat it."""

    call_sites: bool = False
    """Include the call site of each collective, which costs a rank more."""

    progress: bool = False
    """Instead of the last collectives, one entry for each group: its last one, which costs a rank least."""

    within_s: float = 0.5
    """Time for the ranks to answer; without an answer, a view has the facts of /proc alone."""

    node: bool = False
    """Include `HostEvidence`, which the agent reads from the kernel: it costs the ranks nothing."""


@dataclass(frozen=True)
class Stop:
    grace_s: float
    reason: str
    by_hand: bool = False
    """A person requested the stop; otherwise the controller stops the run because of a failure."""


# Agent → controller


@dataclass(frozen=True)
class Hello:
    protocol: int
    pid: int
    phase: str
    """One of PHASES."""

    running: list[int]
    """Ranks that are running."""

    node: str = ""
    """Name of this node in the plan of the run, once it is prepared."""


AGENT_LOST = "agent lost"
"""Phase of a run whose agent ended without a report."""

PHASES = ("new", "prepared", "running", "stopping", "finished", AGENT_LOST)


@dataclass(frozen=True)
class Pong:
    time: float


@dataclass(frozen=True)
class Ready:
    removed: list[str]
    """Leftovers of dead runs that the agent removed, one phrase each."""

    essentials: dict[str, str]
    """Facts that must be equal on every node of a run; "" for one that is absent."""

    port: int = 0
    """Port on which this agent listens for the other agents; 0 when there are none."""

    rendezvous_port: int | None = None
    """Rendezvous port, where the task let this node choose it."""

    libraries: dict[str, str] = field(default_factory=dict)
    """Version of each distribution in the Python environment of the ranks, by name; {} without an environment."""


@dataclass(frozen=True)
class PeersTried:
    """Answer to TryPeers."""

    ends: dict[str, str]
    """Host → result of the connection: one of those in `agent/peers.py`."""


@dataclass(frozen=True)
class Refused:
    reasons: list[Reason]


@dataclass(frozen=True)
class Stopping:
    """The node stops its part of the run. Sent again when a person requests the stop of a run that is stopping."""

    reason: str
    time: float
    by_hand: bool = False
    """A person requested the stop, through this node or another one."""

    ranks: list[RankState] = field(default_factory=list)
    """Ranks of this node that had not ended on their own."""


@dataclass(frozen=True)
class Finished:
    leftovers: list[str]
    """Leftovers after SIGKILL, one phrase each; [] proves that the node is clean."""

    unreadable: str = ""
    """Part of the path of the logs that is not there or cannot be passed, with the reason; "" for readable logs."""


@dataclass(frozen=True)
class Failed:
    """The agent itself failed; its run on this node is over."""

    message: str
    code: str = ""
    """NO_RUN, AGENT_STOPPED, HOST_RESTARTED (during the run), or "" for any other cause."""


NO_RUN, HOST_RESTARTED = "no-run", "host-restarted"
AGENT_STOPPED = "agent-stopped"
"""The agent exists and cannot answer, because of SIGSTOP."""


TO_AGENT = (Ping, Prepare, TryPeers, Release, Follow, Examine, Stop)
FROM_AGENT = (
    Hello, Pong, Ready, PeersTried, Refused, Released, RankStarted, Output, Skipped,
    Activity, CaughtUp, RankEnd, Stopping, HostEvidence,
    RankView, Examined, Finished, Failed,
)  # fmt: skip
_PARTS: dict[str, type[Any]] = {cls.__name__: cls for cls in (
    NodeTask, RankTask, Need, ContainerTask, MountTask,
    OutOfMemory, RankState, Reason, RankSigns, KernelEvent, StuckConnection,
    Frame, ThreadStack, ProcessGroup, Collective,
)}  # fmt: skip
_LONGEST = {
    **dict.fromkeys((RankEnd, Stopping, Finished, Skipped, Failed, PeersTried), 4000),
    HostEvidence: LONGEST_TEXT,
}
"""Messages with texts that are shown or recorded: characters that are kept of each. An agent sends shorter ones."""

_COMPACT = (",", ":")
_NAMES: dict[type[Any], str] = {cls: cls.__name__ for cls in TO_AGENT + FROM_AGENT}
_BY_NAME: dict[str, type[Any]] = {name: cls for cls, name in _NAMES.items()}


def encode(message: object) -> bytes:
    """Return `message` as one line. Raises WireError for anything that is not a message."""
    name = _NAMES.get(type(message))
    if name is None:
        raise WireError(f"not a message: {message!r}")
    frames: dict[Frame, int] = {}

    def plain(value: object) -> object:
        """Return the fields of a dataclass; of a frame, which a view has often, its number in the list at the end."""
        return frames.setdefault(value, len(frames)) if isinstance(value, Frame) else vars(value)

    # Without a copy as by `asdict`: messages of a start name all nodes, and each node gets one.
    text = json.dumps({"type": name, **vars(message)}, default=plain, separators=_COMPACT)
    if frames:
        text = f'{text[:-1]},"frames":{json.dumps([*map(vars, frames)], separators=_COMPACT)}}}'
    return text.encode() + b"\n"


def decode(line: bytes) -> Any:
    """Return the message in `line`. Unknown fields are ignored, so that a newer peer may send more.

    Lists and texts of what a node reports are cut to their bounds.

    Raises WireError for a line that is no JSON object, an unknown type, a missing field or a field of the wrong type.
    """
    try:
        body = parse_object(line, MAX_BODY)
    except UntrustedJsonError as error:
        raise WireError(f"expected a JSON object ({error}), got {excerpt(line)}") from None
    name = body.get("type")
    cls = _BY_NAME.get(name) if isinstance(name, str) else None
    if cls is None:
        raise WireError(f"expected a message, got {excerpt(line)}")
    if cls is RankView:
        frames = fields.checked("list[Frame]", body.get("frames", []), "frames", _PARTS, LONGEST_TEXT)
        return fields.read(cls, body, {**_PARTS, "Frame": frames}, LONGEST_TEXT)
    return fields.read(cls, body, _PARTS, _LONGEST.get(cls))


def from_fields(cls: type[T], body: dict[str, Any]) -> T:
    """Build a `cls` and the dataclasses within it from a JSON object. Raises WireError for a missing or wrong field."""
    return fields.read(cls, body, _PARTS)
