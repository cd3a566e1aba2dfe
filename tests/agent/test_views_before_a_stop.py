"""Views of ranks that are taken before a stop, and how long they may delay it."""

from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.agent.test_examination import UP, program, stack, views


def test_the_other_ranks_are_examined_before_a_failure_stops_them(node: Node, tmp_path: Path) -> None:
    waits = "import os, signal, sys, time\n"
    waits += "signal.signal(signal.SIGTERM, lambda *_: sys.exit('terminated'))\n"
    waits += "def train():\n    " + UP + "    time.sleep(600)\ntrain()"
    fails = "import os, time\nwhile not os.path.exists('fail'): time.sleep(0.01)\nraise SystemExit(3)"
    controller = node.up(
        task(tmp_path, program(tmp_path, waits), program(tmp_path, fails, "fails.py"), "echo up; exec sleep 600"),
        count=2,
    )
    assert views(controller)[0].source == "helper"
    (tmp_path / "fail").touch()
    controller.until(protocol.Finished)
    taken = {view.rank: view for view in controller.all(protocol.RankView) if view.serial == protocol.UNASKED}
    assert taken.keys() == {0, 2}
    # On a machine that is busy for half a second, the rank has no time to answer.
    assert stack(taken[0]) == ["train", "<module>"] if taken[0].source else "no answer in 0.5 s" in taken[0].note
    assert taken[2].note == "no stacks: not a Python program"
    order = [
        type(each).__name__ for each in controller.received if isinstance(each, protocol.RankView | protocol.RankEnd)
    ]
    assert order[-4:] == ["RankView", "RankView", "RankEnd", "RankEnd"]

    again = node.attach()
    again.send(protocol.Follow({}, []))
    again.until(protocol.Finished)
    assert {view.rank for view in again.all(protocol.RankView)} == {0, 2}
