"""A controller that follows ranks which print nothing costs the agent a look at their files, and no more."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.logs.tail import LogFollower
from pylaunch.agent.serve.connection import Controller
from pylaunch.agent.serve.supervisor import LOOK_S, Supervisor
from pylaunch.base.layout import NodeRoot

PAUSE_S = 4 * LOOK_S


class WithDeadline(Supervisor):
    pause_s = PAUSE_S
    """Time until the next deadline of the supervisor."""

    def _timeout(self, now: float) -> float:
        return self.pause_s


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[WithDeadline]:
    """A supervisor with a controller that follows the file `0.out`."""
    root = NodeRoot(str(tmp_path))
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as listener, ours, theirs:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        made = WithDeadline(root, root.run("r1"), listener, "0", notes=[])
        controller = Controller(ours)
        controller.follower = LogFollower({"0.out": str(tmp_path / "0.out")}, protocol.Follow({}, None))
        made._controllers.append(controller)
        yield made


def waited(supervisor: WithDeadline) -> float:
    began = time.monotonic()
    supervisor._wait()
    return time.monotonic() - began


def test_a_silent_rank_wakes_the_supervisor_at_its_next_deadline(supervisor: WithDeadline) -> None:
    assert waited(supervisor) >= PAUSE_S


def test_output_wakes_the_supervisor_soon(supervisor: WithDeadline, tmp_path: Path) -> None:
    supervisor.pause_s = 60.0
    (tmp_path / "0.out").write_text("step 1\n")
    assert waited(supervisor) < supervisor.pause_s


def test_an_unfinished_line_does_not_keep_the_supervisor_busy(supervisor: WithDeadline, tmp_path: Path) -> None:
    (tmp_path / "0.out").write_text("50 %")
    assert waited(supervisor) >= LOOK_S
