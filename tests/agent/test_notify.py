"""The signal that asks ranks for a checkpoint."""

import signal
from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.agent.test_launcher import launched

PATIENT = "echo ready; while :; do sleep 0.05; done"
SAVES = f"trap 'echo saved; exit 0' USR1; {PATIENT}"
COUNTS = f"trap 'echo got USR1' USR1; trap 'exit 0' TERM; {PATIENT}"


def test_ranks_with_a_handler_get_the_signal_and_end_on_their_own(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, SAVES, PATIENT))
    for _ in range(2):
        controller.until(protocol.Output)
    controller.send(protocol.Notify(signal.SIGUSR1))
    notified = controller.until(protocol.RanksNotified)
    assert (notified.ranks, notified.without) == ([0], [1])
    ended = controller.until(protocol.RankEnd)
    assert (ended.rank, ended.exit_code, ended.stopped) == (0, 0, False)
    controller.send(protocol.Stop(0.0, "enough"))
    controller.until(protocol.Finished)


def test_a_rank_gets_the_signal_once_however_often_it_is_ordered(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, COUNTS))
    controller.until(protocol.Output)
    controller.send(protocol.Notify(signal.SIGUSR1))
    controller.until_text("0.out", "got USR1")
    controller.send(protocol.Notify(signal.SIGUSR1), protocol.Stop(60.0, "enough"))
    controller.until(protocol.Finished)
    assert controller.text("0.out").count("got USR1") == 1


def test_a_rank_of_a_launcher_gets_it_through_its_entry_and_ends_on_its_own(node: Node, tmp_path: Path) -> None:
    controller = node.started(launched(tmp_path, SAVES))
    controller.until_text("0.out", "ready\n")
    controller.pid(0)  # The agent may read the log before the report of the entry.
    controller.send(protocol.Notify(signal.SIGUSR1))
    assert controller.until(protocol.RanksNotified).ranks == [0]
    ended = controller.until(protocol.RankEnd)
    assert (ended.exit_code, ended.stopped) == (0, False)
    controller.until(protocol.Finished)


def test_another_signal_is_refused(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, PATIENT))
    controller.send(protocol.Notify(signal.SIGKILL))
    assert "out of bounds" in controller.until(protocol.Failed).message
