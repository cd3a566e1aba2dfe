"""Views of ranks that are taken before a stop, and how long they may delay it."""

import signal
from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.agent.test_examination import LIES, TAKES_SOCKET, UP, program, stack, views


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


def test_a_stop_by_a_person_waits_for_no_view(node: Node, tmp_path: Path) -> None:
    controller = node.up(task(tmp_path, program(tmp_path, UP + "import time; time.sleep(600)")))
    controller.send(protocol.Stop(5.0, "enough", by_hand=True))
    controller.until(protocol.Finished)
    assert controller.all(protocol.RankView) == []


def test_a_rank_that_never_answers_delays_the_stop_of_its_node_by_half_a_second(node: Node, tmp_path: Path) -> None:
    source = "import faulthandler\nfaulthandler.unregister(57)\n" + LIES.format(
        answer="held = connection.recv(1 << 20)"
    )
    source = source.replace("    connection.close()\n", "    listener.accept()\n")
    fails = "import os, time\nwhile not os.path.exists('fail'): time.sleep(0.01)\nraise SystemExit(3)"
    controller = node.up(task(tmp_path, program(tmp_path, source), program(tmp_path, fails, "fails.py")))
    (tmp_path / "fail").touch()
    controller.until(protocol.Finished)
    failed, terminated = controller.ended(1), controller.ended(0)
    assert terminated.signal == signal.SIGTERM
    assert terminated.time - failed.time > 0.4
    (view,) = controller.all(protocol.RankView)
    assert (view.rank, view.source) == (0, "")


def test_ranks_have_their_time_to_answer_before_the_stop_however_long_the_facts_of_the_node_take(
    node: Node, tmp_path: Path
) -> None:
    node.altered_by = "import time; from pylaunch.agent.evidence.node_facts import NodeFacts; "
    node.altered_by += "NodeFacts.collect = lambda *_: time.sleep(0.3)"
    silent = "import faulthandler\nfaulthandler.unregister(57)\n" + TAKES_SOCKET + UP
    silent += "held = []\nwhile True: held.append(listener.accept())"
    controller = node.up(
        task(tmp_path, program(tmp_path, silent), "while [ ! -e fail ]; do sleep 0.01; done; exit 3", "sleep 600")
    )
    (tmp_path / "fail").touch()
    controller.until(protocol.Finished)
    ends = [type(each) for each in controller.received if isinstance(each, protocol.RankView | protocol.RankEnd)]
    assert ends == [
        protocol.RankEnd,
        protocol.RankView,
        protocol.RankView,
        protocol.RankEnd,
        protocol.RankEnd,
    ]
    view = next(view for view in controller.all(protocol.RankView) if view.rank == 0)
    assert view.note == "no stacks: no answer in 0.5 s"
    assert view.state in ("R", "S")
