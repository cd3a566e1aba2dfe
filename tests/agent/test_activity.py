"""Signs of life of ranks reach a controller that requests them."""

import sys
import time
from pathlib import Path

from pylaunch import protocol
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
