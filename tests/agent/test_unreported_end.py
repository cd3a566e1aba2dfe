"""`attach` to a run whose supervisor left no report of its end."""

import os
import re
import signal
from pathlib import Path

import pytest

from pylaunch import protocol
from tests.agent.controller import Node, gone, task

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"
PATIENT = "echo up; exec sleep 60"
CRASH = 'Traceback (most recent call last):\n  File "agent.pyz", line 1\nMemoryError: no arena\n'


@pytest.fixture
def killed(node: Node, tmp_path: Path) -> Node:
    """A node on which the supervisor of a run was killed."""
    controller = node.started(task(tmp_path, STUBBORN, PATIENT))
    pids = [controller.pid(0), controller.pid(1)]
    os.kill(node.supervisor(controller), signal.SIGKILL)
    gone(*pids)
    return node


def answer(node: Node) -> protocol.Failed:
    after = node.attach()
    after.send(protocol.Follow({}, None))
    return after.until(protocol.Failed)


def test_a_killed_supervisor_takes_its_ranks_with_it_and_attach_reports_it(killed: Node) -> None:
    assert answer(killed) == protocol.Failed("the agent of run r1 ended without a report")


def test_a_supervisor_that_crashed_has_its_exception_in_the_report(killed: Node) -> None:
    (killed.root / "runs/r1/agent.log").write_text(f"a note\n{CRASH}")
    assert answer(killed).message == "the agent of run r1 ended without a report: it crashed: MemoryError: no arena"


def test_a_host_that_was_restarted_says_so(killed: Node) -> None:
    (killed.root / "runs/r1/boot").write_text("another boot\n")
    failed = answer(killed)
    assert failed.code == protocol.HOST_RESTARTED
    assert re.fullmatch(r"it was restarted during the run: up since \d{4}-\d\d-\d\d [\d:]{8} [+-]\d{4}", failed.message)
