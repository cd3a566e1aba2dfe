"""An order to stop a run, over the wire, and what ends at the same time."""

import os
import signal
from pathlib import Path

from pylaunch import protocol
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.sockets import local_socket
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
        another.sendall(protocol.encode(protocol.Stop(5.0, "by ada", by_hand=True)))
        os.kill(agent, signal.SIGCONT)
    assert controller.until(protocol.Finished).leftovers == []
    ended = controller.ended(0)
    assert (ended.signal, ended.stopped) == (signal.SIGSEGV, False)


def test_a_rank_that_saves_at_the_signal_of_slurm_was_stopped_also_where_it_ends_before_the_agent_wakes_up(
    node: Node, tmp_path: Path
) -> None:
    """Slurm sends SIGTERM to all processes of a job step at once: a good end after it is no proof that all is done."""
    controller = node.started(task(tmp_path, "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"))
    controller.until_text("0.out", "up\n")
    rank, agent = controller.pid(0), node.supervisor(controller)  # Output may precede the report of the start.
    os.kill(agent, signal.SIGSTOP)
    for each in (agent, rank):
        os.kill(each, signal.SIGTERM)
    wait_until(lambda: processes.read(rank).state == "Z", "the end of the rank")
    os.kill(agent, signal.SIGCONT)
    controller.until(protocol.Finished)
    ended = controller.ended(0)
    assert (ended.exit_code, ended.stopped) == (0, True)
    assert [each.reason for each in controller.all(protocol.Stopping)] == [protocol.SIGNALLED]
