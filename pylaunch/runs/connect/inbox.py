"""Messages that the controller has received from all nodes and not handled yet, bounded in number and in bytes.

A message counts for its host until the next one is heard, also while it is kept for later. A reader waits for `room`
before it reads another line, so the pipe and then the window of SSH fill, and a node that floods waits. No message is
dropped.
"""

import asyncio
from collections import defaultdict, deque

MOST_MESSAGES = 1000
"""Messages in the inbox before nodes have to wait: a rank that floods stalls only its own log."""

MOST_BYTES = 16 << 20
"""Encoded bytes of all messages that wait, of which each host has an equal share."""

LEAST_SHARE = 64 << 10
"""Share of a host in a large cluster: about one message with output."""


_Waiting = tuple[str, object, int]
"""A message with its host, and the bytes of its line. A tuple: a rank that floods makes many of them."""


class Inbox:
    """Messages of `hosts` hosts, and those of the controller itself with "" as their host."""

    def __init__(self, hosts: int) -> None:
        self._share = max(LEAST_SHARE, MOST_BYTES // max(1, hosts))
        self._arrived: asyncio.Queue[_Waiting] = asyncio.Queue(MOST_MESSAGES)
        self._first: deque[_Waiting] = deque()
        self._kept: list[_Waiting] = []
        self._heard: _Waiting | None = None
        self._bytes: dict[str, int] = defaultdict(int)
        self._has_room: dict[str, asyncio.Event] = {}

    async def put(self, host: str, message: object, size: int = 0) -> None:
        """Put in a message whose line had `size` bytes; wait while the inbox has MOST_MESSAGES."""
        self._bytes[host] += size
        await self._arrived.put((host, message, size))

    async def room(self, host: str) -> None:
        """Wait until the messages of `host` that wait are less than its share."""
        while self._bytes[host] >= self._share:
            has_room = self._has_room.setdefault(host, asyncio.Event())
            has_room.clear()
            await has_room.wait()

    async def hear(self) -> tuple[str, object]:
        """Wait for the next message; return it with its host. The one before counts no longer, unless it was kept."""
        if self._heard is not None:
            self._forget(self._heard)
            self._heard = None
        self._heard = self._first.popleft() if self._first else await self._arrived.get()
        host, message, _ = self._heard
        return host, message

    def keep(self) -> None:
        """Keep the message that was heard last, until `put_back`."""
        if self._heard is not None:
            self._kept.append(self._heard)
            self._heard = None

    def put_back(self) -> None:
        """Put the kept messages back at the front, in the order in which they were heard."""
        self._first.extendleft(reversed(self._kept))
        self._kept.clear()

    def _forget(self, handled: _Waiting) -> None:
        host, _, size = handled
        if size:
            self._bytes[host] -= size
            if host in self._has_room and self._bytes[host] < self._share:
                self._has_room[host].set()
