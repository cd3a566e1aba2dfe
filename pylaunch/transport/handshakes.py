"""Turns for SSH handshakes: few run at once, and one for each shared connection.

A handshake costs this machine tens of milliseconds of processor time, and ssh ends it after ConnectTimeout. When
every host is connected to at once, each handshake gets a small share of the processors, and all time out together. So
a handshake waits for its turn before its ssh is started: the time in the queue does not count against it. Commands
over a connection that is open do not wait.

Two commands that need the same connection at the same time log in once: the second waits for the first.

Agents start in turns of their own (`AGENTS`), also over open connections: what a host takes to answer counts from its
own start, not from that of the first of many.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.transport.connector import Connector
from pylaunch.transport.openssh.sharing import open_connections
from pylaunch.transport.process import Together

MOST = max(8, 4 * (os.cpu_count() or 1))
SLOW_S = 2.0
"""A handshake that takes longer waits for the network or the host, not for a processor here: others may begin."""

MOST_AGENTS = 64
"""A command over an open connection costs a few milliseconds here; the rest of its time is the host's own."""

AGENT_SLOW_S = 10.0
"""After this, another agent may start beside one that has not answered. Hosts that share processors, virtual machines
or containers, answer late together: agents that start beside 64 of them would make all exceed their time-out."""

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

AGENTS = Turns(MOST_AGENTS, opened=frozenset, slow_s=AGENT_SLOW_S)
"""No connection exempts an agent from its turn."""


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
