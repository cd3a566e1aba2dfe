"""Input of a person for the rank that has the terminal."""

import asyncio
from collections.abc import Mapping

from pylaunch import protocol
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.follow.debug_session import DebugSession

PLAN = plan_run(
    Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2"))), JobSpec(("true",), Framework.COMMAND, "/"), "7f3a9c01"
)


class Recording(Fleet):
    """Records what is sent."""

    def __init__(self) -> None:
        super().__init__(PLAN, "0123")
        self.sent: list[tuple[str, object]] = []

    async def send(self, messages: Mapping[str, object]) -> None:
        self.sent.extend(messages.items())


class Terminal:
    """A `PersonTerminal` on which `keys` are typed, and which ends then."""

    def __init__(self, *keys: bytes) -> None:
        self.keys = list(keys)
        self.is_lent = False
        self.shown = b""
        self.rows = 24

    def lend(self) -> None:
        self.is_lent = True

    def take_back(self) -> None:
        self.is_lent = False

    def show(self, data: bytes) -> None:
        self.shown += data

    def size(self) -> tuple[int, int]:
        return self.rows, 80

    async def typed(self, most: int, within_s: float) -> bytes:
        await asyncio.sleep(0)
        if not self.keys:
            raise EOFError
        key = self.keys.pop(0)
        self.rows = 50 if key == b"resize" else self.rows
        return b"" if key == b"resize" else key


def test_keys_are_sent_in_order_and_a_size_when_it_changes() -> None:
    fleet, terminal = Recording(), Terminal(b"p \xc3\xa4\r", b"", b"\x03", b"resize", b"")

    async def debug() -> None:
        session = DebugSession(1, "n2", fleet, terminal)
        await session.request()
        session.begin()
        assert terminal.is_lent
        while terminal.keys:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        session.show(protocol.TerminalOutput(1, "\x1b[1m\xe4"))
        assert session.end()
        assert not session.end()

    asyncio.run(debug())
    assert fleet.sent == [
        ("n2", protocol.TerminalInput("", 24, 80)),
        ("n2", protocol.TerminalInput("p \xc3\xa4\r", 24, 80)),
        ("n2", protocol.TerminalInput("\x03", 24, 80)),
        ("n2", protocol.TerminalInput("", 50, 80)),
    ]
    assert terminal.shown == b"\x1b[1m\xe4"
    assert not terminal.is_lent
