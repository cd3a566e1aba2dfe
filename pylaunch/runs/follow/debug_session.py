"""Session of a person with the rank that has the terminal (`start --debug-rank`): input goes to its node, in order."""

import asyncio
from typing import Protocol

from pylaunch import protocol
from pylaunch.protocol.terminal import ENCODING, MOST_TYPED
from pylaunch.runs.connect.fleet import Fleet

LOOK_S = 1.0
"""Longest time until the rank gets a new size of the terminal."""


class PersonTerminal(Protocol):
    """The terminal of the person, which a rank borrows."""

    def lend(self) -> None:
        """Return each key from `typed` as it is, also Ctrl-C."""

    def take_back(self) -> None:
        """Restore its settings, if it is lent."""

    def show(self, data: bytes) -> None:
        """Write `data`, which nothing has made safe."""

    def size(self) -> tuple[int, int]:
        """Return its rows and columns."""

    async def typed(self, most: int, within_s: float) -> bytes:
        """Return at most `most` bytes that the person typed within `within_s` seconds. Raises EOFError at its end."""


class DebugSession:
    """The terminal on the side of the controller, from the release to the end of the rank or the stop of the run."""

    def __init__(self, rank: int, host: str, fleet: Fleet, terminal: PersonTerminal) -> None:
        self.rank = rank
        self.host = host
        self._fleet = fleet
        self._terminal = terminal
        self._relay: asyncio.Task[None] | None = None

    async def request(self) -> None:
        """Ask the agent for the output of the rank from now on, before the release and on each new connection."""
        await self._send(b"", self._terminal.size())

    def show(self, message: protocol.TerminalOutput) -> None:
        """Show what the rank wrote."""
        self._terminal.show(message.data.encode(ENCODING))

    def begin(self) -> None:
        """Lend the terminal to the rank."""
        self._terminal.lend()
        self._relay = asyncio.ensure_future(self._relay_input())

    def end(self) -> bool:
        """Take the terminal back; return whether it was lent."""
        was_lent, self._relay = self._relay, None
        if was_lent is not None:
            was_lent.cancel()
        self._terminal.take_back()
        return was_lent is not None

    async def _relay_input(self) -> None:
        size = self._terminal.size()
        while True:
            try:
                data = await self._terminal.typed(MOST_TYPED, LOOK_S)
            except EOFError:
                return
            before, size = size, self._terminal.size()
            if data or size != before:
                await self._send(data, size)

    async def _send(self, data: bytes, size: tuple[int, int]) -> None:
        await self._fleet.send({self.host: protocol.TerminalInput(data.decode(ENCODING), *size)})
