"""The conversation with all nodes at once in which they try the network between them, and show their clocks.

Every node listens, receives the ports of the others, and connects to all of them at the same moment: one round for
the whole matrix, however many nodes. The node's side and the messages are in `agent/piped/mesh.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pylaunch.agent.piped import mesh as node_side
from pylaunch.agent.probe.registry import ReadingKey
from pylaunch.agent.shared.untrusted_json import UntrustedJsonError, parse_object
from pylaunch.model.clock import Exchange, measure
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.program import BEGUN, STREAMED, program, streamed
from pylaunch.transport.answers import MALFORMED, what_is_wrong
from pylaunch.transport.connections import connector_of
from pylaunch.transport.process import Child, describe_exit, spawn

MATRIX: ReadingKey[Any] = ReadingKey("mesh.matrix")
OFFSET: ReadingKey[Any] = ReadingKey("mesh.offset")
SHELL: ReadingKey[Any] = ReadingKey("mesh.shell")
READINGS: frozenset[str] = frozenset((MATRIX, OFFSET, SHELL))
"""Results for each host, in the form of readings of the probe."""

OPENING = 64
"""Channels that are opened at the same time."""

BLOCK = 64
"""Hosts in one conversation. Of more, each block of so many talks in turn, the first host with all of them."""

PARTS_S = 2.0
LISTEN_TIMEOUT_S = 20.0
"""From calling ssh to "listening": slow login shells take this long, and are a finding of their own."""

ROW_TIMEOUT_S = 12.0
"""Above all that a node waits for while it connects."""

PINGS = 5
NOISE_KEPT = 5
"""Lines of what a login shell prints."""


class _SilentError(Exception):
    """The node says no more, and why."""


@dataclass
class _Partner:
    """One node and its answers."""

    host: Host
    child: Child
    listening: Mapping[str, Any] = field(default_factory=dict)
    readings: dict[str, Any] = field(default_factory=dict)

    async def say(self, what: Mapping[str, Any]) -> None:
        try:
            await self.child.send(json.dumps(what).encode() + b"\n")
        except ConnectionError:
            raise _SilentError(await self._last_words()) from None

    async def hear(self, expected: str, timeout_s: float) -> tuple[Any, list[str]]:
        """Return the message with the key `expected`, and earlier lines that are no messages."""
        noise: list[str] = []
        try:
            async with asyncio.timeout(timeout_s):
                while line := await self.child.readline():
                    said = _decoded(line)
                    if said is not None and expected in said:
                        return said, noise
                    if len(noise) < NOISE_KEPT:
                        noise.append(line.decode("utf-8", "replace").rstrip())
        except TimeoutError:
            raise _SilentError(f"no answer within {timeout_s:g} s") from None
        raise _SilentError(await self._last_words())

    async def _last_words(self) -> str:
        ended = await self.child.end()
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        return f"the conversation ended ({describe_exit(ended.returncode)}): {said[-1] if said else 'no reason given'}"


def converse(cluster: Cluster, port: int | None) -> dict[str, dict[str, Any]]:
    """READINGS of every host of `cluster`: host → reading → what was found, or Unmeasured.

    `port`: the rendezvous port, which every node listens on for the moment, or None. Of hosts with the same address
    the first does.
    """
    found: dict[str, dict[str, Any]] = {}
    for block in _blocks(cluster):
        for name, readings in asyncio.run(_conversation(block, port)).items():
            found[name] = _joined(found[name], readings) if name in found else readings
    return found


def _joined(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Merge the results of the first host from several conversations."""
    both = before[MATRIX], after[MATRIX]
    if any(isinstance(each, Unmeasured) for each in both):
        return before
    return {**before, MATRIX: {**both[0], "row": {**both[0]["row"], **both[1]["row"]}}}


def _blocks(cluster: Cluster) -> Iterator[Cluster]:
    first, others = cluster.names[:1], cluster.names[1:]
    for begin in range(0, max(1, len(others)), BLOCK - 1):
        yield cluster.only((*first, *others[begin : begin + BLOCK - 1]))


async def _conversation(cluster: Cluster, port: int | None) -> dict[str, dict[str, Any]]:
    script = streamed(program(node_side.main, BEGUN))
    partners: list[_Partner] = []
    questions = _questions(cluster, port)
    opening = asyncio.Semaphore(OPENING)

    async def listen(host: Host) -> None:
        async with opening:
            words = (host.agent_python, *STREAMED)
            partner = _Partner(host, await spawn(connector_of(host, cluster.known_hosts).argv(words)))
            partners.append(partner)
            await _listen(partner, script, questions[host.name])

    reasons = await _each({host.name: listen(host) for host in cluster.hosts})
    try:
        talking = [partner for partner in partners if partner.host.name not in reasons]
        reasons |= await _each({partner.host.name: _ping(partner) for partner in talking})
        talking = [partner for partner in talking if partner.host.name not in reasons]
        table = {partner.host.name: _entry(partner) for partner in talking}
        reasons |= await _each({partner.host.name: _connect(partner, table) for partner in talking})
    finally:
        await asyncio.gather(*(_part_with(partner) for partner in partners))
    missing: dict[str, Any] = {name: dict.fromkeys(READINGS, Unmeasured(reason)) for name, reason in reasons.items()}
    heard = {partner.host.name: partner.readings for partner in partners}
    return {name: {**missing.get(name, {}), **heard.get(name, {})} for name in cluster.names}


async def _each(work: Mapping[str, Any]) -> dict[str, str]:
    """Do all of it at once; whose part failed, and why."""
    ends = await asyncio.gather(*work.values(), return_exceptions=True)
    reasons = {}
    for name, end in zip(work, ends, strict=True):
        if isinstance(end, _SilentError):
            reasons[name] = str(end)
        elif isinstance(end, MALFORMED):
            reasons[name] = f"its answer is not understood ({what_is_wrong(end)})"
        elif isinstance(end, BaseException):
            raise end
    return reasons


def _questions(cluster: Cluster, port: int | None) -> dict[str, dict[str, Any]]:
    conversation, addresses = secrets.token_hex(8), set[str]()
    questions = {}
    for host in cluster.hosts:
        own = port if host.rank_address not in addresses else None
        addresses.add(host.rank_address)
        questions[host.name] = {"name": host.name, "conversation": conversation, "port": own}
    return questions


async def _listen(partner: _Partner, script: bytes, question: Mapping[str, Any]) -> None:
    with contextlib.suppress(ConnectionError):  # Why it ended is asked by what follows.
        await partner.child.send(script)
    await partner.say(question)
    said, noise = await partner.hear("listening", LISTEN_TIMEOUT_S)
    partner.listening = said["listening"]
    _check_ports(partner.listening["ports"])
    partner.readings[SHELL] = {"noise": noise[:NOISE_KEPT], "seconds": said["shell_seconds"]}


async def _ping(partner: _Partner) -> None:
    exchanges = []
    for _ in range(PINGS):
        sent = time.time()
        await partner.say({"ping": True})
        said, _ = await partner.hear("time", ROW_TIMEOUT_S)
        exchanges.append(Exchange(sent, said["time"], time.time()))
    offset = measure(exchanges)
    partner.readings[OFFSET] = {"seconds": offset.seconds, "uncertainty": offset.uncertainty}


def _check_ports(ports: Mapping[str, Any]) -> None:
    """Raise ValueError for a port that is none: the other nodes connect to it."""
    for kind, port in ports.items():
        if type(port) is not int or not 1 <= port <= 65535:
            raise ValueError(f"{kind}: {port!r} is no port")


def _entry(partner: _Partner) -> dict[str, Any]:
    host = partner.host
    return {"name": host.name, "address": host.rank_address, "ports": partner.listening["ports"]}


async def _connect(partner: _Partner, table: Mapping[str, Mapping[str, Any]]) -> None:
    await partner.say({"connect": [entry for name, entry in table.items() if name != partner.host.name]})
    said, _ = await partner.hear("row", ROW_TIMEOUT_S)
    partner.readings[MATRIX] = {**partner.listening, "row": said["row"]}


async def _part_with(partner: _Partner) -> None:
    await partner.child.leave(PARTS_S)


def _decoded(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(UntrustedJsonError):
        return parse_object(line, len(line))
    return None
