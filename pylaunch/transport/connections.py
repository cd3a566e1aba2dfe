"""Pick the connector of each host; wait for the turn of its handshake; diagnose and close connections.

A handshake costs this machine tens of milliseconds of processor time, and ssh ends it after ConnectTimeout. When
every host is connected to at once, each handshake gets a small share of the processors, and all time out together. So
a handshake waits for its turn before its ssh is started: the time in the queue does not count against it. Commands
over a connection that is open do not wait.

Two commands that need the same connection at the same time log in once: the second waits for the first.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, PylaunchError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.connector import LOGIN_TEST_TIMEOUT_S, Connector, LocalConnector
from pylaunch.transport.openssh import sharing
from pylaunch.transport.openssh.connector import OpenSshConnector
from pylaunch.transport.openssh.sharing import login as openssh_login
from pylaunch.transport.openssh.sharing import open_connections
from pylaunch.transport.process import Together
from pylaunch.transport.slurm.connector import SlurmConnector

MOST = max(8, 4 * (os.cpu_count() or 1))
SLOW_S = 2.0
"""A handshake that takes longer waits for the network or the host, not for a processor here: others may begin."""

POLL_S = 0.01


@dataclass(frozen=True)
class Handshake:
    """One handshake, or a command over an open connection."""

    identity: str
    begun: float


class Turns:
    """Handshakes of this process that run now. Threads and event loops share them."""

    def __init__(
        self,
        most: int = MOST,
        opened: Callable[[], Collection[str]] = open_connections,
        *,
        slow_s: float = SLOW_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._find_opened = opened
        self._slow_s = slow_s
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[int, Handshake] = {}
        self._opened: Collection[str] = ()
        self._looked_at = float("-inf")
        self._waiting = 0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a command that waits for its turn."""
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    @property
    def pause_s(self) -> float:
        """Time until a waiting command asks again: together they ask equally often, however many they are."""
        return POLL_S * max(1.0, self._waiting / self._most)

    def take(self, identity: str) -> Handshake | None:
        """Return a turn for the connection `identity`.

        None while `most` handshakes run, or one for the same connection.
        """
        with self._lock:
            now = self._clock()
            if now - self._looked_at >= POLL_S:
                self._opened, self._looked_at = self._find_opened(), now
                self._running = {
                    key: turn
                    for key, turn in self._running.items()
                    if turn.identity not in self._opened and now - turn.begun < self._slow_s
                }
            turn = Handshake(identity, now)
            if identity in self._opened:
                return turn
            if len(self._running) >= self._most or any(each.identity == identity for each in self._running.values()):
                return None
            self._running[id(turn)] = turn
            return turn

    def end(self, turn: Handshake) -> None:
        """End a turn: its command has answered or ended."""
        with self._lock:
            self._running.pop(id(turn), None)

    @contextlib.asynccontextmanager
    async def awaited(self, identity: str) -> AsyncIterator[None]:
        """Begin this block when `identity` has its turn."""
        with self.waiting():
            while (turn := self.take(identity)) is None:
                await asyncio.sleep(self.pause_s)
        try:
            yield
        finally:
            self.end(turn)


TURNS = Turns()
"""The processors are those of this machine, so all connections of this process share the turns."""


@contextlib.contextmanager
def handshake_turn(connector: Connector, group: Together) -> Iterator[None]:
    """Begin this block, which connects, when it is its turn; at once when `group` has ended."""
    if connector.identity is None:
        yield
        return
    with TURNS.waiting():
        while (turn := TURNS.take(connector.identity)) is None and not group.ends_within(TURNS.pause_s):
            pass
    try:
        yield
    finally:
        if turn is not None:
            TURNS.end(turn)


@contextlib.asynccontextmanager
async def awaited_turn(connector: Connector) -> AsyncIterator[None]:
    """Begin this block, which connects, when it is its turn."""
    async with contextlib.nullcontext() if connector.identity is None else TURNS.awaited(connector.identity):
        yield


DIAGNOSED_AT_ONCE = 32
VERSION_S = 10.0


def connector_of(host: Host, known_hosts: str | None) -> Connector:
    """Return the connector of `host`; `known_hosts` is the path of the project's known_hosts file.

    Raises ClusterNotReadyError for a host that no inventory describes.
    """
    match host.connection:
        case Connection.SSH:
            return OpenSshConnector(host, known_hosts)
        case Connection.LOCAL:
            return LocalConnector(host)
        case Connection.SLURM:
            return SlurmConnector(host)
        case Connection.NONE:
            raise ClusterNotReadyError(f"{host.name} is not in the inventory, so it is not connected to")


async def in_full(connector: Connector, ended: process.Completed) -> process.Completed:
    """Return a command line that failed as `ended` did and printed the reason that `ended` lacks, or `ended`."""
    failure = connector.failure(ended)
    if failure is None or not failure.again:
        return ended
    again = await (await process.spawn(failure.again)).leave(LOGIN_TEST_TIMEOUT_S)
    return ended if connector.failure(again) is None else again


def login(host: Host, known_hosts: str | None, words: Argv) -> Argv:
    """Return the command line for a person at a terminal: a login to `host`, or `words`, read by its shell."""
    return openssh_login(host, known_hosts, words)


def diagnose_connections(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Check each step to every host of `cluster`, several hosts at a time: host → one line per step."""
    connectors = [connector_of(host, cluster.known_hosts) for host in cluster.hosts]
    with ThreadPoolExecutor(DIAGNOSED_AT_ONCE) as pool:
        return dict(zip(cluster.names, pool.map(lambda connector: connector.diagnose(), connectors), strict=True))


def disconnect(cluster: Cluster) -> None:
    """Stop sharing the open connections to these hosts: the next commands log in again, running ones continue."""
    for host in cluster.hosts:
        connector_of(host, cluster.known_hosts).disconnect()


def client_version() -> str | None:
    """Return the version of this machine's OpenSSH client, as "OpenSSH_9.2p1"; None without an answer."""
    try:
        answer = process.run(("ssh", "-V"), timeout_s=VERSION_S)
    except PylaunchError:
        return None
    return answer.stderr.partition(",")[0].strip() or None


def close_all(address: str, user: str) -> None:
    """Close all shared connections to `user` on `address`, whichever credentials opened them."""
    sharing.close_all(address, user)
