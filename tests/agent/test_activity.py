"""Signs of life of ranks reach a controller that requests them."""

import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pylaunch import protocol
from pylaunch.agent.run.run import Run
from pylaunch.agent.serve.supervisor import Controller
from tests.agent.controller import Node, task
from tests.waiting import DEADLINE_S


def test_output_and_steps_of_ranks_are_signs_of_life(node: Node, tmp_path: Path) -> None:
    mark = f"{sys.executable} -c 'from pylaunch import runtime; runtime.step(7, total=9)'; exec sleep 60"
    controller = node.prepared(task(tmp_path, "echo 12345; sleep 60", mark))
    controller.send(protocol.Follow({}, [], activity_s=0.05), protocol.Release(0.0))
    controller.until(protocol.Activity)
    assert controller.all(protocol.CaughtUp), "a view is complete with the first signs of life"
    while True:
        signs = controller.until(protocol.Activity).ranks
        if len(signs) == 2 and signs[0].written and signs[1].step:
            break
    silent, marked = signs
    assert silent == protocol.RankSigns(0, 6)
    assert (marked.rank, marked.step, marked.total) == (1, 7, 9)
    assert abs(marked.time - time.time()) < DEADLINE_S
    controller.send(protocol.Stop(0.0, "seen enough"))
    assert controller.until(protocol.Finished).leftovers == []


def test_signs_of_life_come_with_the_end_of_earlier_output() -> None:
    """They do not wait for the next look at the logs."""
    mine, other = socket.socketpair()
    with mine, other:
        controller, run = (
            Controller(mine),
            cast(Run, SimpleNamespace(streams={}, mask=None, directory=None, live_ranks={})),
        )
        controller.is_subscribed, controller.pending_follow = True, protocol.Follow({}, None, activity_s=60.0)
        controller.start_following(run)
        assert not controller.queue_available([], ended=False)
        controller.flush()
        sent = [protocol.decode(line) for line in other.recv(1 << 16).splitlines()]
    assert sent == [protocol.CaughtUp(), protocol.Activity([])]
