"""Measure the network between all nodes, and their clock offsets, in one session with all of them.

Every node listens, receives the ports of the others, and connects to all of them at the same time: one round for the
whole matrix. The node's side and the messages are in `agent/piped/mesh.py`.
"""

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from pylaunch.agent.piped import mesh as node_side
from pylaunch.agent.probe.registry import ReadingKey
from pylaunch.base.dataclass import dataclass, field
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object
from pylaunch.model.clock import Exchange, measure
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.text import typed_json
from pylaunch.probe.answers import MALFORMED, Unmeasured, what_is_wrong
from pylaunch.probe.program import BEGUN, STREAMED, program, streamed
from pylaunch.transport.connections import connector_of, opening, patience
from pylaunch.transport.process import Child, describe_exit, hosts_at_once, spawn

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class End(TypedDict):
    """Result of a connection: "ok" or what failed, with the error or the name of who answered."""

    end: str
    text: NotRequired[str]
    name: NotRequired[str]


class Taken(TypedDict):
    """Holder of the rendezvous port, or why it cannot be had."""

    by: str
    why: NotRequired[str]
    run: str


class Listening(TypedDict):
    """Ports of a node by kind: the other nodes connect to them."""

    ports: dict[str, Port]
    taken: Taken | None
    ephemeral_range: tuple[int, int] | None


class Matrix(Listening):
    """Results of the connections of a node: peer → kind of port → end."""

    row: dict[str, dict[str, End]]


class Offset(TypedDict):
    """Offset of a clock from that of the controller, in seconds."""

    seconds: float
    uncertainty: float


class Shell(TypedDict):
    """Output of a login shell, and its duration in seconds."""

    noise: list[str]
    seconds: float


MATRIX: ReadingKey[Matrix] = ReadingKey("mesh.matrix")
OFFSET: ReadingKey[Offset] = ReadingKey("mesh.offset")
SHELL: ReadingKey[Shell] = ReadingKey("mesh.shell")
READINGS: frozenset[str] = frozenset((MATRIX, OFFSET, SHELL))
"""Results for each host, in the form of readings of the probe."""

BLOCK = 64
"""Most hosts in one session; fewer where the limit of open files is low. More hosts are divided into blocks, one after
the other; the first host is in every block."""

CLOSE_TIMEOUT_S = 2.0
LISTEN_TIMEOUT_S = 20.0
"""From calling ssh to "listening". A slow login shell may take this long; it has its own finding."""

SEND_TIMEOUT_S = 20.0
ROW_TIMEOUT_S = 25.0
"""Longer than all timeouts of a node that connects, together."""

PINGS = 5
MOST_NOISE = 5
"""Lines that are kept of the output of a login shell."""


class _NoAnswerError(Exception):
    """A node sends no more messages; the reason is the text."""


@dataclass
class _NodeSession:
    """The session with one node, and its results."""

    host: Host
    child: Child
    listening: Listening = field(default_factory=lambda: Listening(ports={}, taken=None, ephemeral_range=None))
    readings: dict[str, Any] = field(default_factory=dict)

    async def send(self, message: Mapping[str, Any], script: bytes = b"") -> None:
        """Send `message`, after the `script` that reads it."""
        try:
            async with patience(SEND_TIMEOUT_S):
                await self.child.send(script + json.dumps(message).encode() + b"\n")
        except TimeoutError:
            raise _NoAnswerError(f"it has read nothing for {SEND_TIMEOUT_S:g} s") from None
        except ConnectionError:
            raise _NoAnswerError(await self._end_reason()) from None

    async def receive(self, expected: str, timeout_s: float) -> tuple[Any, list[str]]:
        """Return the message with the key `expected`, and earlier lines that are no messages."""
        noise: list[str] = []
        try:
            async with patience(timeout_s):
                while line := await self.child.readline():
                    message = _decoded(line)
                    if message is not None and expected in message:
                        return message, noise
                    if len(noise) < MOST_NOISE:
                        noise.append(line.decode("utf-8", "replace").rstrip())
        except TimeoutError:
            raise _NoAnswerError(f"no answer within {timeout_s:g} s") from None
        raise _NoAnswerError(await self._end_reason())

    async def _end_reason(self) -> str:
        ended = await self.child.end()
        errors = [line for line in ended.stderr.splitlines() if line.strip()]
        reason = errors[-1] if errors else "no reason given"
        return f"the connection ended ({describe_exit(ended.returncode)}): {reason}"


async def measure_mesh(cluster: Cluster, port: int | None) -> dict[str, dict[str, Any]]:
    """Return the READINGS of every host of `cluster`: host → reading → value, or Unmeasured.

    `port` is the rendezvous port, on which every node listens during the session; None skips it. Of hosts with the
    same address, only the first listens on it.
    """
    found: dict[str, dict[str, Any]] = {}
    for block in _blocks(cluster):
        for name, readings in (await _measure_block(block, port)).items():
            found[name] = _joined(found[name], readings) if name in found else readings
    return found


def _joined(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Merge the results of the first host from several sessions."""
    both = before[MATRIX], after[MATRIX]
    if any(isinstance(each, Unmeasured) for each in both):
        return before
    return {**before, MATRIX: {**both[0], "row": {**both[0]["row"], **both[1]["row"]}}}


def _blocks(cluster: Cluster) -> Iterator[Cluster]:
    first, others = cluster.names[:1], cluster.names[1:]
    size = max(2, hosts_at_once(min(BLOCK, len(cluster.names)))) - 1
    for begin in range(0, max(1, len(others)), size):
        yield cluster.only((*first, *others[begin : begin + size]))


async def _measure_block(cluster: Cluster, port: int | None) -> dict[str, dict[str, Any]]:
    script = streamed(program(node_side.main, BEGUN))
    nodes: list[_NodeSession] = []
    questions = _questions(cluster, port)

    async def listen(host: Host) -> None:
        connector = connector_of(host, cluster.known_hosts)
        async with opening(connector, LISTEN_TIMEOUT_S):
            node = _NodeSession(host, await spawn(connector.argv((host.agent_python, *STREAMED))))
            nodes.append(node)
            await _listen(node, script, questions[host.name])

    try:
        reasons = await _each({host.name: listen(host) for host in cluster.hosts})
        answering = [node for node in nodes if node.host.name not in reasons]
        reasons |= await _each({node.host.name: _ping(node) for node in answering})
        answering = [node for node in answering if node.host.name not in reasons]
        table = {node.host.name: _entry(node) for node in answering}
        reasons |= await _each({node.host.name: _connect(node, table) for node in answering})
    finally:
        await asyncio.gather(*(node.child.leave(CLOSE_TIMEOUT_S) for node in nodes))
    missing: dict[str, Any] = {name: dict.fromkeys(READINGS, Unmeasured(reason)) for name, reason in reasons.items()}
    results = {node.host.name: node.readings for node in nodes}
    return {name: {**missing.get(name, {}), **results.get(name, {})} for name in cluster.names}


async def _each(work: Mapping[str, Any]) -> dict[str, str]:
    """Run all of `work` (host → awaitable) concurrently; return the reasons of the hosts that failed."""
    ends = await asyncio.gather(*work.values(), return_exceptions=True)
    reasons = {}
    for name, end in zip(work, ends, strict=True):
        if isinstance(end, _NoAnswerError):
            reasons[name] = str(end)
        elif isinstance(end, MALFORMED):
            reasons[name] = f"its answer is not understood ({what_is_wrong(end)})"
        elif isinstance(end, BaseException):
            raise end
    return reasons


def _questions(cluster: Cluster, port: int | None) -> dict[str, dict[str, Any]]:
    session, addresses = secrets.token_hex(8), set[str]()
    questions = {}
    for host in cluster.hosts:
        own = port if host.rank_address not in addresses else None
        addresses.add(host.rank_address)
        questions[host.name] = {"name": host.name, "conversation": session, "port": own}
    return questions


async def _listen(node: _NodeSession, script: bytes, question: Mapping[str, Any]) -> None:
    await node.send(question, script)
    message, noise = await node.receive("listening", LISTEN_TIMEOUT_S)
    node.listening = typed_json.converted(message["listening"], Listening)
    node.readings[SHELL] = Shell(noise=noise, seconds=typed_json.converted(message["shell_seconds"], float))


async def _ping(node: _NodeSession) -> None:
    exchanges = []
    for _ in range(PINGS):
        sent = time.time()
        await node.send({"ping": True})
        message, _ = await node.receive("time", ROW_TIMEOUT_S)
        exchanges.append(Exchange(sent, message["time"], time.time()))
    offset = measure(exchanges)
    node.readings[OFFSET] = Offset(seconds=offset.seconds, uncertainty=offset.uncertainty)


def _entry(node: _NodeSession) -> dict[str, Any]:
    host = node.host
    return {"name": host.name, "address": host.rank_address, "ports": node.listening["ports"]}


async def _connect(node: _NodeSession, table: Mapping[str, Mapping[str, Any]]) -> None:
    peers = {name: entry for name, entry in table.items() if name != node.host.name}
    await node.send({"connect": list(peers.values())})
    message, _ = await node.receive("row", ROW_TIMEOUT_S)
    matrix = typed_json.converted({**node.listening, "row": message["row"]}, Matrix)
    if {name: {*ends} for name, ends in matrix["row"].items()} != {name: {*peers[name]["ports"]} for name in peers}:
        raise ValueError("its row has not the connections that were requested")
    node.readings[MATRIX] = matrix


def _decoded(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(UntrustedJsonError):
        return parse_object(line, len(line))
    return None
