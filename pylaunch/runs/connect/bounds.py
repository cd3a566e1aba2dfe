"""Bounds of what a node reports: its own part of the run, and the number of its events. Pure.

Streams become files under `--save-logs`, ranks decide how a run ended, ports are sent to other nodes, and events fill
the record. So a node may report only its own ranks, streams that the controller requested, and ports that exist; each
rank starts and ends once. Texts and lists were cut when the message was decoded.
"""

from collections import Counter
from collections.abc import Set

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.plan import NodePlan, RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.examination import SOURCES

LAUNCHER_STREAMS = ("launcher.out", "launcher.err")
_PORTS = range(1, 1 << 16)


@dataclass(frozen=True)
class ConnectionEnded:
    """The connection of a node ended, and the controller did not close it."""

    reason: str


@dataclass(frozen=True)
class NodeSilent:
    """No heartbeat of a node for a while; a second connection is being opened."""

    seconds: float


@dataclass(frozen=True)
class HeardAgain:
    """A silent node sent a message on its old connection."""


@dataclass(frozen=True)
class Reconnected:
    """A node has a new connection."""


@dataclass(frozen=True)
class Lost:
    """The agent of a node could not be reached again in time."""

    reason: str
    host_answers: bool = False
    """The host itself answered the last call."""


@dataclass(frozen=True)
class Interrupted:
    """A request to end the run: Ctrl-C, a signal of another program, or a call of `Interrupter`. Comes from no host."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class ForeignMessage:
    """A message about something outside of the node's part of the run; it is ignored."""

    subject: str
    """In words: "output of '../x'"."""


def overstepped(host: str, message: ForeignMessage) -> str:
    """Return the warning for a person."""
    return f"warning: {host} spoke of {message.subject}, which is not its part of the run; ignored"


def streams_of(node: NodePlan) -> list[str]:
    """Return every stream of `node`."""
    return [*(f"{rank.rank}.{channel}" for rank in node.ranks for channel in ("out", "err")), *LAUNCHER_STREAMS]


class Scope:
    """The part of a run that one node may report."""

    def __init__(self, plan: RunPlan, node: NodePlan) -> None:
        self._hosts = frozenset(each.host.name for each in plan.nodes)
        self._ranks = frozenset(rank.rank for rank in node.ranks)
        self._streams = frozenset(streams_of(node))
        self._chooses_port = node is plan.coordinator and plan.job.rendezvous_port is None

    def confined(self, message: object, requested: Set[str]) -> object:
        """Return `message` without entries outside of the node's part, or ForeignMessage where no entry is left.

        `requested` are the streams that the controller requested from this node.
        """
        message = _known(message)
        match message:
            case protocol.Output() | protocol.Skipped() if message.stream not in self._streams & requested:
                return ForeignMessage(f"output of {message.stream[:80]!r}")
            case protocol.RankStarted() | protocol.RankEnd() | protocol.RankView() if (
                message.rank not in self._ranks and message.rank is not None
            ):
                return ForeignMessage(f"rank {message.rank}")
            case protocol.Stopping():
                states = {each.rank: each for each in message.ranks if each.rank in self._ranks}
                return replace(message, ranks=list(states.values()))
            case protocol.Hello():
                return replace(message, running=[rank for rank in message.running if rank in self._ranks])
            case protocol.HostEvidence():
                return self._evidence(message)
            case protocol.PeersTried():
                return replace(message, ends={host: end for host, end in message.ends.items() if host in self._hosts})
            case protocol.Activity():
                return replace(message, ranks=[signs for signs in message.ranks if signs.rank in self._ranks])
            case protocol.Ready():
                return self._ready(message)
            case protocol.Refused() if not message.reasons:
                return protocol.Failed("its agent refuses without a reason")
        return message

    def _evidence(self, message: protocol.HostEvidence) -> protocol.HostEvidence:
        return replace(
            message,
            kernel=tuple(each for each in message.kernel if each.rank is None or each.rank in self._ranks),
            stuck=tuple(each for each in message.stuck if each.rank is None or each.rank in self._ranks),
        )

    def _ready(self, message: protocol.Ready) -> object:
        if message.port != 0 and message.port not in _PORTS:
            return protocol.Failed(f"its agent says that it listens on port {message.port}")
        if message.rendezvous_port is None:
            return message
        if not self._chooses_port:
            return protocol.Failed("its agent has chosen a rendezvous port, which was not its to choose")
        if message.rendezvous_port not in _PORTS:
            return protocol.Failed(f"its agent has chosen the rendezvous port {message.rendezvous_port}")
        return message


def _known(message: object) -> object:
    """Return `message` without words that no agent uses."""
    if isinstance(message, protocol.RankView):
        source = message.source if message.source in SOURCES else ""
        return replace(message, source=source, state=message.state[:1])
    return message


MOST_CONTACTS = 200
"""Losses of contact to one node, and returns, that are recorded."""

MOST_HANGS = 100
"""Reports of hangs, and of their ends, that are recorded: they follow from signs of life that nodes report."""

_ONCE = (EventKind.RANK_STARTED, EventKind.RANK_ENDED)
_CONTACT = (EventKind.CONTACT_LOST, EventKind.CONTACT_REGAINED)
_HANG = (EventKind.HANG, EventKind.ADVANCING)


class EventBounds:
    """Events of one attempt that were recorded so far."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[object, ...]] = Counter()

    def admits(self, event: Event) -> bool:
        """Count `event`; return True if it is within the bounds. Each rank starts and ends once in an attempt."""
        key, most = _bound(event)
        self._counts[key] += 1
        return most is None or self._counts[key] <= most

    def notice(self, event: Event) -> str:
        """Return a line for a person when `event` is the first one beyond its bound; "" otherwise."""
        key, most = _bound(event)
        if event.kind in _ONCE or most is None or self._counts[key] != most + 1:
            return ""
        where = f" of {event.host}" if event.kind in _CONTACT else ""
        return f"note: {most} events {event.kind.value}{where} are recorded; further ones are not"


def _bound(event: Event) -> tuple[tuple[object, ...], int | None]:
    """Return the key under which `event` is counted, and the number that is recorded; None for all."""
    if event.kind in _ONCE:
        return (event.kind, event.rank), 1
    if event.kind in _CONTACT:
        return (event.kind, event.host), MOST_CONTACTS
    if event.kind in _HANG:
        return (event.kind,), MOST_HANGS
    return (event.kind,), None
