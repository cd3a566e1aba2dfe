"""An order to stop a run, over the wire, and what ends at the same time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pylaunch.agent import wire
from pylaunch.agent.shared import local_socket, processes
from tests.agent.controller import Node, task
from tests.waiting import wait_until

PATIENT = "echo up; exec sleep 60"


def test_a_rank_that_failed_before_the_order_to_stop_arrived_was_not_stopped(node: Node, tmp_path: Path) -> None:
    """The agent is held up: it learns of both at the same time."""
    controller = node.started(task(tmp_path, PATIENT))
    rank, agent = controller.pid(0), node.supervisor(controller)
    with local_socket.connect(str(node.root / "runs" / "r1" / "agent.sock")) as another:
        assert another.recv(1 << 16)
        os.kill(agent, signal.SIGSTOP)
        os.kill(rank, signal.SIGSEGV)
        wait_until(lambda: processes.read(rank).state == "Z", "the end of the rank")
        another.sendall(wire.encode(wire.Stop(5.0, "by ada", by_hand=True)))
        os.kill(agent, signal.SIGCONT)
    assert controller.until(wire.Finished).leftovers == []
    ended = controller.ended(0)
    assert (ended.signal, ended.stopped) == (signal.SIGSEGV, False)
