"""The terminal of one rank: what a person types, what the rank writes, and who gets it."""

import signal
import sys
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.protocol.terminal import MOST_TYPED
from tests.agent.controller import Controller, Node, task
from tests.agent.test_job_daemon import LONG_S, StartDaemon, opened_as_in_a_job
from tests.agent.test_job_daemon import start_daemon as start_daemon
from tests.agent.test_launcher import launched
from tests.waiting import wait_until

CTRL_C = "\x03"
ASKS = "import os; print(os.get_terminal_size()); print('got', input('? ')); raise SystemExit(7)"
LOOPS = """
import os, time
try:
    print("tty", os.isatty(0), os.isatty(1), os.isatty(2), os.tcgetpgrp(0) == os.getpid(), flush=True)
    while True:
        time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted")
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def typed(controller: Controller, data: str, columns: int = 77) -> None:
    controller.send(protocol.TerminalInput(data, 33, columns))


def shown(controller: Controller) -> str:
    return "".join(each.data for each in controller.all(protocol.TerminalOutput))


def shows(controller: Controller, text: str) -> None:
    """Receive until the terminal has shown `text`."""
    while text not in shown(controller):
        assert controller.receive() is not None, f"{text!r} not in {shown(controller)!r}"


def test_a_rank_reads_what_a_person_types_and_writes_to_the_terminal_and_to_its_log(node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, python(ASKS), "echo other", terminal_rank=0))
    typed(controller, "")
    controller.send(protocol.Follow({}, None), protocol.Release(0.0))
    shows(controller, "? ")
    typed(controller, "yes\r")
    controller.until(protocol.Finished)
    assert shown(controller) == "os.terminal_size(columns=77, lines=33)\r\n? yes\r\ngot yes\r\n"
    assert controller.text("0.out") == "os.terminal_size(columns=77, lines=33)\n? yes\ngot yes\n"
    assert controller.text("1.out") == "other\n"
    end = next(end for end in controller.all(protocol.RankEnd) if end.rank == 0)
    assert (end.exit_code, end.last_lines[-1]) == (7, "got yes")


def test_ctrl_c_is_sigint_of_that_rank_alone(node: Node, tmp_path: Path) -> None:
    waits = python("import time; print('up', flush=True); time.sleep(600)")
    controller = node.started(task(tmp_path, python(LOOPS), waits, terminal_rank=0))
    typed(controller, "")
    shows(controller, "tty True True True True")
    typed(controller, CTRL_C)
    ended = controller.until(protocol.RankEnd)
    assert (ended.rank, ended.exit_code, ended.last_lines[-1]) == (0, 0, "^Cinterrupted")
    assert [end.rank for end in controller.all(protocol.RankEnd)] == [0]
    controller.send(protocol.Stop(0.0, "over", by_hand=True))
    controller.until(protocol.Finished)


def test_a_rank_of_a_launcher_has_the_terminal_as_well(node: Node, tmp_path: Path) -> None:
    asked = launched(tmp_path, "read line; echo got $line", "echo other")
    asked = protocol.from_fields(protocol.NodeTask, {**vars(asked), "ranks": [vars(each) for each in asked.ranks]})
    controller = node.prepared(asked.__class__(**{**vars(asked), "terminal_rank": 0}))
    typed(controller, "this\r")
    controller.send(protocol.Follow({}, None), protocol.Release(0.0))
    controller.until(protocol.Finished)
    assert controller.text("0.out").endswith("got this\n")


def test_output_waits_for_its_controller_and_goes_to_the_one_that_typed_last(node: Node, tmp_path: Path) -> None:
    flood = "import sys\nfor n in range(40000): print(f'{n:099d}')\ninput()"
    controller = node.started(task(tmp_path, python(flood), terminal_rank=0))
    typed(controller, "")
    other = node.attach("r1")
    other.until(protocol.Hello)
    typed(other, "", columns=80)
    shows(other, f"{39999:099d}\r\n")
    typed(other, "\r")
    controller.until(protocol.Finished)
    log = Path(node.root / "runs/r1/logs/0.out").read_bytes()
    assert log.count(b"\n") == 40001
    assert b"\r" not in log
    controller.kill()


def test_a_rank_whose_controller_has_gone_writes_on(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, python(ASKS), terminal_rank=0))
    typed(controller, "")
    shows(controller, "? ")
    controller.kill()
    other = node.attach("r1")
    other.send(protocol.Follow({}, None))
    typed(other, "later\r")
    assert other.until(protocol.RankEnd).exit_code == 7
    assert "got later" in shown(other)


@pytest.mark.parametrize("data", ["x" * (MOST_TYPED + 1), "\u0100"])
def test_input_out_of_bounds_is_refused(data: str, node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, "read line", terminal_rank=0))
    typed(controller, data)
    assert "TerminalInput.data: out of bounds" in controller.until(protocol.Failed).message


def test_without_a_terminal_input_ends_at_once(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, python("input()")))
    typed(controller, "ignored\r")
    assert "EOFError" in controller.until(protocol.RankEnd).error


def test_a_terminal_that_nobody_reads_does_not_stop_the_stop(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, python("while True: print('x' * 1000)"), terminal_rank=0))
    typed(controller, "")
    wait_until(lambda: Path(node.root / "runs/r1/logs/0.out").stat().st_size > 1 << 17, "output")
    other = node.attach("r1")
    other.send(protocol.Follow({}, []), protocol.Stop(0.0, "enough", by_hand=True))
    assert other.until(protocol.Finished).leftovers == []
    assert other.all(protocol.RankEnd)[0].signal in (signal.SIGTERM, signal.SIGKILL)
    controller.kill()


def test_a_rank_on_a_node_of_a_slurm_job_has_the_terminal(
    node: Node, tmp_path: Path, start_daemon: StartDaemon
) -> None:
    start_daemon(LONG_S)
    controller = opened_as_in_a_job(node)
    controller.send(protocol.Prepare(task(tmp_path, "tty -s && read line && echo got $line", terminal_rank=0)))
    typed(controller, "this\r")
    controller.send(protocol.Follow({}, None), protocol.Release(0.0))
    controller.until(protocol.Finished)
    assert "got this\r\n" in shown(controller)
