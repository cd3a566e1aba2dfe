"""Pick the connector of each host, open connections in turn, name hosts that stay silent, explain connections that
fail, and close them.

A handshake costs this machine tens of milliseconds of processor time, and ssh ends it after ConnectTimeout. When
every host is connected to at once, each handshake gets a small share of the processors, and all time out together. So
a handshake waits for its turn before its ssh is started: the time in the queue does not count against it. Commands
over a connection that is open wait only while COMMANDS of them begin.

Two commands that need the same connection at the same time log in once: the second waits for the first.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, PylaunchError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.connector import ConnectionFailure, Connector
from pylaunch.transport.openssh.connector import OpenSshConnector
from pylaunch.transport.openssh.sharing import open_connections
from pylaunch.transport.slurm.connector import SlurmConnector

HANDSHAKES = max(8, 4 * (os.cpu_count() or 1))
SLOW_S = 2.0
"""A handshake that takes longer waits for the network or the host, not for a processor here: others may begin."""

COMMANDS = 64
"""Commands that begin at the same time, with or without a handshake: more would only delay each of them."""

STALLED_S = 8.0
"""A command that has not answered after this time keeps no other one from beginning."""

POLL_S = 0.01

AGAIN_S = 15.0
"""For a command that is repeated for the reason that it prints."""


@dataclass(frozen=True)
class Beginning:
    """A command that has not answered yet."""

    identity: str | None
    """Identity of the connection that it opens; None where one is open, or none is needed."""

    begun: float


class Turns:
    """Commands of this process that begin now, on all of its event loops."""

    def __init__(
        self,
        handshakes: int = HANDSHAKES,
        opened: Callable[[], Collection[str]] = open_connections,
        *,
        slow_s: float = SLOW_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handshakes = handshakes
        self._find_opened = opened
        self._slow_s = slow_s
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[int, Beginning] = {}
        self._opened: Collection[str] = ()
        self._looked_at = float("-inf")
        self._waiting = 0

    @property
    def pause_s(self) -> float:
        """Time until a waiting command asks again: together they ask equally often, however many they are."""
        return POLL_S * max(1.0, self._waiting / self._handshakes)

    def take(self, identity: str | None) -> Beginning | None:
        """Return a turn for a command over the connection `identity`; None while it must wait."""
        with self._lock:
            now = self._clock()
            if identity is not None and now - self._looked_at >= POLL_S:
                self._opened, self._looked_at = self._find_opened(), now
            running = {key: turn for key, turn in self._running.items() if now - turn.begun < STALLED_S}
            handshakes = [
                turn.identity
                for turn in running.values()
                if turn.identity is not None and turn.identity not in self._opened and now - turn.begun < self._slow_s
            ]
            needs_login = identity is not None and identity not in self._opened
            may_log_in = len(handshakes) < self._handshakes and identity not in handshakes
            self._running = running
            if len(running) >= COMMANDS or (needs_login and not may_log_in):
                return None
            turn = Beginning(identity if needs_login else None, now)
            running[id(turn)] = turn
            return turn

    def end(self, turn: Beginning) -> None:
        """End a turn: its command has answered or ended."""
        with self._lock:
            self._running.pop(id(turn), None)

    @contextlib.asynccontextmanager
    async def awaited(self, identity: str | None) -> AsyncIterator[None]:
        """Begin this block when a command over the connection `identity` has its turn."""
        with self._counted():
            while (turn := self.take(identity)) is None:
                await asyncio.sleep(self.pause_s)
        try:
            yield
        finally:
            self.end(turn)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1


TURNS = Turns()
"""The processors are those of this machine, so all connections of this process share the turns."""


TICK_S = 0.5


@contextlib.asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError in the block once this process has listened for `seconds`."""
    async with asyncio.timeout(None) as limit:
        counting = asyncio.ensure_future(_end(limit, seconds))
        try:
            yield
        finally:
            counting.cancel()


async def _end(limit: asyncio.Timeout, seconds: float) -> None:
    left_s = seconds
    while left_s > 0:
        tick_s = min(TICK_S, left_s)
        await asyncio.sleep(tick_s)  # However long it takes, it counts as one tick.
        left_s -= tick_s
    limit.reschedule(asyncio.get_running_loop().time())


SILENT_S = 3.0
"""Time after which a host that has not answered is reported; between two reports it is as long."""

TOGETHER_S = 1.0
"""Hosts that will be silent so soon are in the same report."""

Report = Callable[[Sequence[str], float], None]
"""Receives the hosts, and the seconds after which the last of them is given up."""


class Awaited:
    """Hosts that are awaited now. Threads and event loops share them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._waits: dict[str, list[tuple[float, float]]] = {}
        """Begin and deadline of each wait, by host."""

        self._reported: set[str] = set()
        self._reported_at = float("-inf")
        self._report: Report | None = None
        self._watch: threading.Thread | None = None

    def report_to(self, report: Report | None) -> None:
        """Call `report` in a thread for hosts that stay silent, once for each time that they are awaited."""
        self._report = report

    @contextlib.contextmanager
    def hosts(self, names: Iterable[str], within_s: float) -> Iterator[Callable[[str], None]]:
        """Await `names` in this block, for `within_s` seconds at most, or until the function gets their name."""
        wait = (now := self._clock(), now + within_s)
        left = set(names)

        def answered(name: str) -> None:
            if name not in left:
                return
            left.discard(name)
            with self._changed:
                self._waits[name].remove(wait)
                if not self._waits[name]:
                    del self._waits[name]
                    self._reported.discard(name)
                self._changed.notify()

        with self._changed:
            for name in left:
                self._waits.setdefault(name, []).append(wait)
            if self._report is not None and self._watch is None and left:
                self._watch = threading.Thread(target=self._name_silent, daemon=True)
                self._watch.start()
        try:
            yield answered
        finally:
            for name in tuple(left):
                answered(name)

    def silent(self) -> tuple[list[str], float]:
        """Return the hosts to report now, with the time until they are given up; for none, the time to wait."""
        now = self._clock()
        begun = {name: min(waits)[0] for name, waits in self._waits.items() if name not in self._reported}
        due_at = max(min(begun.values(), default=float("inf")), self._reported_at) + SILENT_S
        if due_at > now:
            return [], due_at - now
        named = [name for name, since in begun.items() if since + SILENT_S <= now + TOGETHER_S]
        self._reported.update(named)
        self._reported_at = now
        return named, max(min(until for _, until in self._waits[name]) for name in named) - now

    def _name_silent(self) -> None:
        while True:
            with self._changed:
                if not self._waits:
                    self._watch = None
                    return
                named, seconds = self.silent()
                if not named:
                    self._changed.wait(min(seconds, threading.TIMEOUT_MAX))
            if named and self._report is not None:
                self._report(named, seconds)


AWAITED = Awaited()
"""The terminal is that of this process, so all requests of this process share them."""


@contextlib.asynccontextmanager
async def opening(connector: Connector, within_s: float) -> AsyncIterator[None]:
    """Begin this block, in which a command reaches the host and gets its first answer, when it is its turn.

    The host is reported while it stays silent; the caller gives it up after `within_s` seconds.
    """
    async with TURNS.awaited(connector.identity):
        with AWAITED.hosts([connector.host.name], within_s):
            yield


async def why_not_reached(connector: Connector, ended: process.Completed) -> ConnectionFailure | None:
    """Return why the command line `ended` did not reach its host; None when it did.

    Where ssh has not printed the reason, ask it again.
    """
    failure = connector.failure(ended)
    if failure is None or not failure.again:
        return failure
    with contextlib.suppress(PylaunchError):
        again = await process.communicate(failure.again, timeout_s=AGAIN_S)
        return connector.failure(again) or failure
    return failure


@dataclass(frozen=True)
class LocalConnector(Connector):
    """The `Connector` of a host with `ansible_connection=local`: there is no connection that could fail."""

    identity = None

    def argv(self, words: Argv, *, shared: bool = True) -> Argv:
        """Return `words`."""
        return words

    def failure(self, ended: process.Completed) -> None:
        """Return None: a command that ends has reached this machine."""

    def timed_out(self, within_s: float) -> ConnectionFailure:
        """Name the agent, the only party here that can be silent."""
        return ConnectionFailure(
            f"agent {self.host.address}: no answer within {within_s:.0f} s", f"check that {self.host.name} is up"
        )

    def ansible_variables(self) -> Mapping[str, str]:
        """Select Ansible's local connection."""
        return {"ansible_connection": "local"}


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


def disconnect(cluster: Cluster) -> None:
    """Stop sharing the open connections to these hosts: the next commands log in again, running ones continue."""
    for host in cluster.hosts:
        connector_of(host, cluster.known_hosts).disconnect()
