"""Stacks that faulthandler writes for a rank whose helper thread does not answer."""

from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.agent.test_examination import UP, program, stack, views
from tests.waiting import wait_until


def test_a_rank_whose_c_code_holds_the_gil_answers_however_often_it_is_asked(node: Node, tmp_path: Path) -> None:
    """Its helper thread accepts none of the connections, and the kernel keeps few."""
    source = "import itertools\ndef train(): sum(itertools.repeat(0))\n" + UP + "train()"
    controller = node.up(task(tmp_path, program(tmp_path, source)))

    def by_signal(within_s: float) -> list[protocol.RankView]:
        view = views(controller, len(controller.all(protocol.Examined)) + 1, within_s=within_s)[0]
        return [view] if (view.source, stack(view)) == ("signal", ["train", "<module>"]) else []

    (view,) = wait_until(lambda: by_signal(2.0), "stacks of train that faulthandler wrote")
    assert [thread.is_main for thread in view.threads] == [True]
    assert "C code holds the GIL" in view.note
    for _ in range(20):
        by_signal(0.01)
    wait_until(lambda: by_signal(2.0), "stacks of train that faulthandler wrote again")
