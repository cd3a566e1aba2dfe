"""A connection to one node's agent: an SSH channel on which both sides speak `agent.wire`."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pylaunch.agent import wire
from pylaunch.launch.connect.node_script import AGENT_ABSENT, ENTER, PYTHON_ABSENT, ROOT_UNTRUSTED, root_words
from pylaunch.model.argv import Argv
from pylaunch.model.clock import ClockOffset, Exchange, measure
from pylaunch.model.cluster import Connection, Host
from pylaunch.transport.connections import connector_of
from pylaunch.transport.connector import LOGIN_TEST_TIMEOUT_S, Connector
from pylaunch.transport.process import Child, Completed, describe_exit, last_line, spawn

PINGS = 3
HELLO_TIMEOUT_S = 15.0
"""From calling ssh to the agent's Hello: a connection that others opened may be dead without a word."""

LEAVES_S = 3.0
"""From closing a connection to the end of its ssh: across a dead network, or to a stopped process, it has none."""


class AgentAbsentError(Exception):
    """The host answers, but does not carry the agent of this version."""


class LinkError(Exception):
    """The host cannot be talked to: the reason, and what to type next."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class NoAgentError(LinkError):
    """The connection works, and what answers is not the agent."""


class AgentStoppedError(LinkError):
    """The host answers, and the agent of the run there is stopped (SIGSTOP)."""


class RunUnknownError(LinkError):
    """The host answers, and has nothing of this run."""


@dataclass(frozen=True)
class AgentVersion:
    """The agent this controller speaks with: the content hash of its archive."""

    version: str


def enter(host: Host, agent: AgentVersion, verb: str, run: str) -> Argv:
    """The words to run on `host` to reach its agent. `{user}` in the node root becomes the user id there."""
    return ("/bin/sh", "-c", ENTER, "sh", *root_words(host), host.agent_python, agent.version, verb, run)


class AgentLink:
    """An open connection; made by `open_link`, which has already heard Hello."""

    def __init__(self, connector: Connector, child: Child, hello: wire.Hello, clock: ClockOffset) -> None:
        self.seconds = 0.0
        """What connecting took."""

        self.host = connector.host
        self.hello = hello
        self.clock = clock
        self._connector = connector
        self._child = child
        self.requested: frozenset[str] = frozenset()
        """Streams that the agent was asked for."""

        self.heard_at = time.monotonic()
        """When its last word came."""

        self.is_awaited = False
        """Somebody waits for its next word now: only then is it the node that is silent, and not we that are deaf."""

    async def send(self, message: object) -> None:
        """Say `message`. Raises LinkError when nobody listens any more."""
        if isinstance(message, wire.Follow):
            self.requested = frozenset(message.streams or ())
        try:
            await self._child.send(wire.encode(message))
        except ConnectionError:
            raise LinkError(await self.why_it_ended()) from None

    async def messages(self) -> AsyncIterator[object]:
        """What the agent says, until the connection ends."""
        while True:
            self.heard_at = time.monotonic()
            self.is_awaited = True
            line = await self._child.readline()
            self.is_awaited = False
            if not line:
                return
            yield _decoded(self.host, line)

    async def close(self, within_s: float) -> None:
        """End the connection: an abort before release, a farewell after. The agent has `within_s` to end it itself."""
        await self._child.leave(within_s)

    def abandon(self) -> None:
        """Let go of a connection that nothing comes from any more; `close` waits for its end."""
        self._child.signal(signal.SIGTERM)

    async def why_it_ended(self) -> str:
        """In words, once it has."""
        return why_ended(self._connector, await self._child.leave(LEAVES_S)).reason


@dataclass(frozen=True)
class Call:
    """What to ask of a host: `verb` is "open" (start an agent for `run` if there is none) or "attach"."""

    verb: str
    run: str
    within_s: float = HELLO_TIMEOUT_S
    shared: bool = True
    """Over the connection that is open already, if there is one; a dead one answers nobody."""


async def open_link(host: Host, known_hosts: str | None, agent: AgentVersion, call: Call) -> AgentLink:
    """Connect to the agent of a run on `host`.

    Raises AgentAbsentError when it must be installed first, LinkError for everything else.
    """
    if host.connection is Connection.NONE:
        raise LinkError("not in the inventory, so not connected to", "name an inventory that has it with -i")
    connector = connector_of(host, known_hosts)
    child = await spawn(connector.argv(enter(host, agent, call.verb, call.run), shared=call.shared))
    try:
        async with asyncio.timeout(call.within_s):
            line = await child.readline()
            if not line:
                raise await _explain(connector, child)
            hello = _decoded(host, line)
            if isinstance(hello, wire.Failed):
                raise _refused(hello, call)
            if not isinstance(hello, wire.Hello):
                raise LinkError(f"expected Hello, got {type(hello).__name__}")
            if hello.protocol != wire.PROTOCOL:
                raise LinkError(f"speaks protocol {hello.protocol}, this pylaunch speaks {wire.PROTOCOL}")
            if hello.phase not in wire.PHASES:
                raise LinkError(f"expected a phase of a run, got {hello.phase[:80]!r}")
            return AgentLink(connector, child, hello, await _measure_clock(connector, child))
    except NoAgentError:
        await child.end()
        if (failure := await _not_obeyed(connector)) is not None:
            raise failure from None
        raise
    except LinkError:
        await child.end()
        raise
    except TimeoutError:
        await child.end()
        silence = connector.timed_out(call.within_s)
        raise LinkError(silence.reason, silence.hint) from None
    except asyncio.CancelledError:
        child.signal(signal.SIGTERM)
        raise


async def _not_obeyed(connector: Connector) -> LinkError | None:
    """Return why the host does not run commands, where that explains the missing agent."""
    test = connector.login_test()
    if test is None:
        return None
    child = await spawn(test.argv)
    failure = test.failure(await child.leave(LOGIN_TEST_TIMEOUT_S))
    return None if failure is None else LinkError(failure.reason, failure.hint)


def _refused(failed: wire.Failed, call: Call) -> LinkError:
    if failed.code == wire.AGENT_STOPPED:
        return AgentStoppedError(failed.message, f"pylaunch stop {call.run} ends it; kill -CONT lets it go on")
    return RunUnknownError(failed.message) if failed.code == wire.NO_RUN else LinkError(failed.message)


async def _measure_clock(connector: Connector, child: Child) -> ClockOffset:
    exchanges = []
    for serial in range(PINGS):
        sent = time.time()
        try:
            await child.send(wire.encode(wire.Ping(serial)))
        except ConnectionError:
            raise await _explain(connector, child) from None
        line = await child.readline()
        if not line:
            raise await _explain(connector, child)
        answer = _decoded(connector.host, line)
        if not isinstance(answer, wire.Pong):
            raise LinkError(f"expected Pong, got {type(answer).__name__}")
        exchanges.append(Exchange(sent, answer.time, time.time()))
    return measure(exchanges)


async def _explain(connector: Connector, child: Child) -> Exception:
    ended = await child.leave(LEAVES_S)
    if ended.returncode == AGENT_ABSENT:
        return AgentAbsentError()
    return why_ended(connector, ended)


def why_ended(connector: Connector, ended: Completed) -> LinkError:
    """Return why a connection ended."""
    host = connector.host
    if (failure := connector.failure(ended)) is not None:
        return LinkError(failure.reason, failure.hint)
    if ended.returncode == PYTHON_ABSENT:
        return NoAgentError(
            f"no Python at {host.agent_python}",
            f"install python3 on {host.name} (pylaunch provision does), or set pylaunch_agent_python in the inventory",
        )
    if ended.returncode == AGENT_ABSENT:
        return LinkError("the agent's archive is gone, or is damaged")
    if ended.returncode == ROOT_UNTRUSTED:
        return LinkError(root_untrusted(host), f"look at it on {host.name}, then remove it")
    return NoAgentError(f"the agent ended with {describe_exit(ended.returncode)}: {last_line(ended.stderr)}")


def root_untrusted(host: Host) -> str:
    """Why nothing under the node root of `host` is executed."""
    return f"node root {host.node_root} is not a directory of this user that is closed to others: it may be a trap"


def _decoded(host: Host, line: bytes) -> object:
    try:
        message: object = wire.decode(line)
    except wire.WireError as error:
        raise NoAgentError(
            f"something on {host.name} writes into the connection: {error}",
            "make the login shell silent for non-interactive sessions (its rc files print)",
        ) from None
    return message
