"""The relays between a connection and an agent."""

import os
import signal
from collections.abc import Callable

import pytest

from pylaunch import protocol
from pylaunch.agent.shared import processes
from tests.agent.controller import Controller, Node
from tests.agent.test_job_daemon import LONG_S, StartDaemon, opened_as_in_a_job
from tests.agent.test_job_daemon import start_daemon as start_daemon
from tests.waiting import DEADLINE_S, wait_until

PIPE = 1 << 16
"""Bytes that a pipe holds, and that a relay reads at once."""


@pytest.mark.parametrize("opened", [Node.open, opened_as_in_a_job], ids=["open", "in a job"])
def test_a_relay_ends_well_though_the_agent_is_killed_before_it_has_read_everything(
    node: Node, start_daemon: StartDaemon, opened: Callable[[Node], Controller]
) -> None:
    start_daemon(LONG_S)
    relay = opened(node)
    agent = relay.until(protocol.Hello).pid
    os.kill(agent, signal.SIGSTOP)
    wait_until(lambda: processes.read(agent).state == "T", "the agent is stopped")
    ping = protocol.Ping(0)
    # When all of it is in the pipe, the relay has sent the first part of it.
    relay.send(*[ping] * (2 * PIPE // len(protocol.encode(ping)) + 1))
    os.kill(agent, signal.SIGKILL)
    assert relay.process.wait(DEADLINE_S) == 0
