"""The end of a connection to an agent, with a real process at its other end."""

import asyncio

import pytest

from pylaunch import protocol
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Connection, Host
from pylaunch.runs.connect.agent_link import AgentLink, LinkError
from pylaunch.transport.connections import LocalConnector
from pylaunch.transport.process import spawn


async def send_for_ever(link: AgentLink) -> None:
    while True:
        await link.send(protocol.Ping(leads=True))
        await asyncio.sleep(0)


def test_what_an_agent_sent_before_its_end_can_be_read_after_a_message_that_came_too_late() -> None:
    """A node that has ended its part is sent the order to stop, which comes from another one."""
    hello = protocol.Hello(protocol.PROTOCOL, 7, "running", [])
    last = protocol.Failed("the run is over")
    answers = ("/bin/sh", "-c", 'exec <&-; printf %s "$1"', "sh", protocol.encode(last).decode())

    async def too_late() -> list[object]:
        link = AgentLink(
            LocalConnector(Host("n1", "127.0.0.1", Connection.LOCAL)),
            await spawn(answers),
            hello,
            ClockOffset(0.0, 0.0),
        )
        with pytest.raises(LinkError):
            await send_for_ever(link)
        return [message async for message, _ in link.messages()]

    assert asyncio.run(too_late()) == [last]
