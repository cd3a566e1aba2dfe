"""A connection to the agent of one node: an SSH channel for the messages of `protocol`.

The shell scripts that reach the agent trust nothing that another user of the node could have created. The default node
root is in a directory where every user can make one. So before anything under it is executed, the root must be a
directory of the connecting user that is closed to others, and the archive must have the hash that is its name.
`sha256sum` and `ls` are of coreutils and of busybox.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.base.layout import JOB_VARIABLE
from pylaunch.model.clock import ClockOffset, Exchange, measure
from pylaunch.model.cluster import Connection, Host
from pylaunch.model.diagnosis import host_errors
from pylaunch.model.text.argv import Argv, pylaunch
from pylaunch.runs.events import clock_now
from pylaunch.transport.connections import connector_of, opening, patience, why_not_reached
from pylaunch.transport.connector import ConnectionFailure, Connector
from pylaunch.transport.process import Child, Completed, describe_exit, last_line, spawn

ROOT_UNTRUSTED = 95
AGENT_ABSENT = 96
PYTHON_ABSENT = 97
AGENTS_DAMAGED = 98

_OPEN_ENDINGS = ("{", "(", "do", "then", "else", "in", "|", "&&", "||", ";")
"""Ends of lines after which a shell accepts no semicolon."""

STARTS_S = 30
"""For the daemon of a Slurm job, which installs the agent, before the host counts as one without it."""


def _one_line(script: str) -> str:
    """Return `script` on one line: the login shell may be csh, where quotes cannot span lines."""
    lines = [line.strip() for line in script.splitlines() if line.strip()]
    ended = (line if line.endswith(_OPEN_ENDINGS) else f"{line};" for line in lines)
    return " ".join(ended).removesuffix(";")


TRUST = f"""\
command -v sha256sum > /dev/null || PATH=/usr/bin:/bin${{PATH:+:$PATH}}
root=$1$2
[ "$3" = user ] && root=$1$(id -u)$2
[ -x "$4" ] || exit {PYTHON_ABSENT}
trusted() {{
  [ ! -L "$root" ] && [ -d "$root" ] && [ -O "$root" ] || return 1
  case $(ls -ldn -- "$root") in drwx--[-S]--[-T]*) return 0 ;; esac
  return 1
}}
whole() {{
  [ -f "$1" ] && [ ! -L "$1" ] || return 1
  case $(sha256sum < "$1") in "$2"*) return 0 ;; esac
  return 1
}}
"""

_ROOT = f"""\
[ -e "$root" ] || [ -L "$root" ] || exit {AGENT_ABSENT}
trusted || exit {ROOT_UNTRUSTED}
"""

_AWAIT_INSTALLATION = f"""\
left=0
[ -z "${JOB_VARIABLE}" ] || left={STARTS_S * 20}
while [ $left -gt 0 ] && [ ! -f "$root/agents/$5.pyz" ]; do sleep 0.05; left=$((left - 1)); done
"""
"""The daemon of a Slurm job installs the agent, and is being started at the same time."""

ENTER = _one_line(f"""\
{TRUST}
{_AWAIT_INSTALLATION}
{_ROOT}
agent=$root/agents/$5.pyz
until whole "$agent" "$5"; do
  [ $left -gt 0 ] || exit {AGENT_ABSENT}
  sleep 0.05; left=$((left - 1))
done
exec "$4" -I -S "$agent" "$6" --root "$root" --run "$7"
""")
"""Words: the node root before and after the user id, "user" where that stands in it, Python, version, verb and run.

An archive that is damaged counts as absent: it is installed again.
"""

RUNS = _one_line(f"""\
{TRUST}
{_ROOT}
ls -t -- "$root/agents" 2>/dev/null | {{
  end={AGENT_ABSENT}
  while IFS= read -r name; do
    version=${{name%.pyz}}
    [ "$name" != "$version" ] || continue
    end={AGENTS_DAMAGED}
    agent=$root/agents/$name
    [ ${{#version}} -eq 16 ] && whole "$agent" "$version" && exec "$4" -I -S "$agent" runs --root "$root" < /dev/null
  done
  exit $end
}}
""")
"""The same words without the last three: the newest agent that is whole reports its runs."""


def root_words(host: Host) -> Argv:
    """Return the first three words of both scripts: the node root around `{user}`, and whether that occurs in it."""
    before, placeholder, after = host.node_root.partition("{user}")
    return (before, after, "user" if placeholder else "")


CLOSED = "the agent closed the connection"
PINGS = 3
HELLO_TIMEOUT_S = 15.0
"""From calling ssh to the agent's Hello: a shared connection may be dead."""

SLURM_OPENS_S = 45.0
"""The same for the first connection to a node of a Slurm job: the step that starts the agents may just have begun."""

LEAVES_S = 3.0
"""From closing a connection to killing its ssh, which does not end across a dead network or for a stopped process."""


class LinkError(Exception):
    """No connection to the agent: the reason, and a hint."""

    def __init__(
        self, reason: str, hint: str | None = None, *, is_final: bool = False, host_answers: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.is_final = is_final
        """No further attempt can succeed."""

        self.host_answers = host_answers
        """The host ran the command that reaches its agent."""


class AgentAbsentError(LinkError):
    """The host answers, but the agent of this version is not installed."""

    def __init__(self, host: Host) -> None:
        super().__init__(f"the agent's archive is not at {host.address}", host_answers=True)


class RunUnknownError(LinkError):
    """The host does not know this run."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, is_final=True, host_answers=True)


def enter(host: Host, agent: str, verb: str, run: str) -> Argv:
    """Return the command that reaches the agent of version `agent` (the hash of its archive) on `host`.

    `{user}` in the node root becomes the user id there.
    """
    return ("/bin/sh", "-c", ENTER, "sh", *root_words(host), host.agent_python, agent, verb, run)


class AgentLink:
    """An open connection; made by `open_link`, which receives Hello."""

    def __init__(self, connector: Connector, child: Child, hello: protocol.Hello, clock: ClockOffset) -> None:
        self.host = connector.host
        self.hello = hello
        self.clock = clock
        self._connector = connector
        self._child = child
        self.requested: frozenset[str] = frozenset()
        """Streams that the controller requested."""

        self.heard_at = time.monotonic()
        """Monotonic time of the last message."""

        self.is_awaited = False
        """The next message is awaited: only then can the node be silent; else the controller does not listen."""

    async def send(self, message: object) -> None:
        """Send `message`. Raises LinkError when the connection has ended; what came before that can still be read."""
        if isinstance(message, protocol.Follow):
            self.requested = frozenset(message.streams or ())
        try:
            await self._child.send(protocol.encode(message))
        except ConnectionError:
            raise LinkError(CLOSED) from None

    async def messages(self) -> AsyncIterator[tuple[object, int]]:
        """Yield the messages of the agent, each with the bytes of its line, until the connection ends."""
        while True:
            self.heard_at = time.monotonic()
            self.is_awaited = True
            line = await self._child.readline()
            self.is_awaited = False
            if not line:
                return
            yield _decoded(self.host, line), len(line)

    async def close(self, within_s: float) -> None:
        """End the connection, which aborts a run before its release. The agent has `within_s` to end it on its side."""
        await self._child.leave(within_s)

    def abandon(self) -> None:
        """Give up a silent connection; `close` waits for its end."""
        self._child.signal(signal.SIGTERM)

    async def why_it_ended(self) -> str:
        """Wait for the end of the connection and return its reason in words."""
        ended = await self._child.leave(LEAVES_S)
        # The relay on the host ends well when the agent is gone.
        if ended.ok and not ended.stderr:
            return CLOSED
        return why_ended(self.host, ended, self._connector.failure(ended)).reason


@dataclass(frozen=True)
class Call:
    """A request to a host: `verb` is "open" (start an agent for `run` if there is none) or "attach"."""

    verb: str
    run: str
    within_s: float = HELLO_TIMEOUT_S
    shared: bool = True
    """Use the SSH connection that is open, if there is one. It may be dead."""


async def open_link(host: Host, known_hosts: str | None, agent: str, call: Call) -> AgentLink:
    """Connect to the agent of a run on `host`.

    Raises AgentAbsentError when it must be installed first, LinkError for everything else.
    """
    if host.connection is Connection.NONE:
        raise LinkError(
            "not in the inventory, so not connected to", "name an inventory that has it with -i", is_final=True
        )
    connector = connector_of(host, known_hosts)
    if host.slurm_job is not None and call.verb == "open":
        call = replace(call, within_s=SLURM_OPENS_S)
    # A connection of its own replaces a silent one, whose node counts as lost soon: it does not wait.
    async with opening(connector, call.within_s) if call.shared else contextlib.nullcontext():
        return await _opened(connector, agent, call)


async def _opened(connector: Connector, agent: str, call: Call) -> AgentLink:
    host = connector.host
    child = await spawn(connector.argv(enter(host, agent, call.verb, call.run), shared=call.shared))
    try:
        async with patience(call.within_s):
            line = await child.readline()
            if not line:
                raise await _explain(connector, child)
            hello = _decoded(host, line)
            if isinstance(hello, protocol.Failed):
                raise _refused(hello, call)
            if not isinstance(hello, protocol.Hello):
                raise LinkError(f"expected Hello, got {type(hello).__name__}")
            if hello.protocol != protocol.PROTOCOL:
                raise LinkError(f"speaks protocol {hello.protocol}, this pylaunch speaks {protocol.PROTOCOL}")
            if hello.phase not in protocol.PHASES:
                raise LinkError(f"expected a phase of a run, got {hello.phase[:80]!r}")
            if hello.node not in ("", host.name):
                raise LinkError(f"{host.address} leads to another node of the run: {hello.node[:80]!r}")
            return AgentLink(connector, child, hello, await _measure_clock(connector, child))
    except LinkError:
        await child.end()
        raise
    except TimeoutError:
        silence = connector.timed_out(call.within_s)
        await child.end()
        raise silent(silence) from None
    except asyncio.CancelledError:
        child.signal(signal.SIGTERM)
        raise


def _refused(failed: protocol.Failed, call: Call) -> LinkError:
    if failed.code == protocol.NO_RUN:
        return RunUnknownError(failed.message)
    ways = f"to end it: pylaunch stop {call.run}; to resume it: kill -CONT"
    return LinkError(failed.message, ways if failed.code == protocol.AGENT_STOPPED else None, host_answers=True)


async def _measure_clock(connector: Connector, child: Child) -> ClockOffset:
    exchanges = []
    for _ in range(PINGS):
        sent = clock_now()
        try:
            await child.send(protocol.encode(protocol.Ping(leads=False)))
        except ConnectionError:
            raise await _explain(connector, child) from None
        line = await child.readline()
        if not line:
            raise await _explain(connector, child)
        answer = _decoded(connector.host, line)
        if not isinstance(answer, protocol.Pong):
            raise LinkError(f"expected Pong, got {type(answer).__name__}")
        exchanges.append(Exchange(sent, answer.time, clock_now()))
    return measure(exchanges)


async def _explain(connector: Connector, child: Child) -> Exception:
    ended = await child.leave(LEAVES_S)
    if ended.returncode == AGENT_ABSENT:
        return AgentAbsentError(connector.host)
    return why_ended(connector.host, ended, await why_not_reached(connector, ended))


def why_ended(host: Host, ended: Completed, failure: ConnectionFailure | None) -> LinkError:
    """Return the reason why a connection ended; `failure` is why it did not reach the host, if it did not."""
    if failure is not None:
        return LinkError(failure.reason, failure.hint, is_final=failure.is_final)
    if ended.returncode == PYTHON_ABSENT:
        return LinkError(f"no Python at {host.agent_python}", host_errors.agent_python(host), host_answers=True)
    if ended.returncode == AGENT_ABSENT:
        return LinkError("the agent's archive is gone, or is damaged")
    if ended.returncode == ROOT_UNTRUSTED:
        hint = f"look at it on {host.name}, then remove it"
        is_shared = "{user}" not in host.node_root
        return LinkError(
            root_untrusted(host), "a root for each user: pylaunch_node_root=…{user}" if is_shared else hint
        )
    return LinkError(
        f"the connection to its agent ended ({describe_exit(ended.returncode)}): {last_line(ended.stderr)}",
        pylaunch("check", "--limit", host.name),
        host_answers=True,
    )


def silent(failure: ConnectionFailure) -> LinkError:
    """Return the error for a connection on which nothing arrived in time."""
    return LinkError(failure.reason, failure.hint, host_answers=failure.host_answers)


def root_untrusted(host: Host) -> str:
    """Return the reason why nothing under the node root of `host` is executed."""
    return f"node root {host.node_root} is not a directory of this user that is closed to others: it may be a trap"


def _decoded(host: Host, line: bytes) -> object:
    try:
        message: object = protocol.decode(line)
    except protocol.WireError as error:
        raise LinkError(
            f"something on {host.name} writes into the connection: {error}",
            "make the login shell silent for non-interactive sessions (its rc files print); if it is silent,"
            f" {host.agent_python} prints",
            host_answers=True,
        ) from None
    return message
