"""Ranks that a launcher starts through the agent; a small program takes the place of torchrun."""

import dataclasses
import os
import signal
import sys
from pathlib import Path

import pytest

from pylaunch import protocol
from tests.agent.controller import Node, gone, task

LAUNCHER = r"""
import os, signal, subprocess, sys
entry = sys.argv[1:]
ranks = int(os.environ["RANKS"])
children = []
def stop(signum, frame):
    for child in children:
        child.send_signal(signal.SIGTERM)
    print("terminated", flush=True)
    sys.exit(1)
signal.signal(signal.SIGTERM, stop)  # Before the first rank, whose end may bring the signal.
for n in range(ranks):
    env = {**os.environ, "LOCAL_RANK": str(n), "RANK": str(n), "FROM_LAUNCHER": "yes"}
    children.append(subprocess.Popen(entry, env=env))
left = set(children)
while left:
    pid, status = os.wait()
    for child in children:
        if child.pid == pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            left.discard(child)
    if status and os.environ.get("STOPS_SIBLINGS"):
        for child in left:
            child.send_signal(signal.SIGTERM)
print([child.returncode for child in children], flush=True)
sys.exit(any(child.returncode for child in children))
"""
PATIENT = "echo up; exec sleep 60"


def launched(tmp_path: Path, *programs: str, **env: str) -> protocol.NodeTask:
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    words = [sys.executable, str(tmp_path / "launcher.py"), protocol.RANK_ENTRY]
    given = {"PATH": os.environ["PATH"], "RANKS": str(len(programs)), **env}
    return task(tmp_path, *programs, launcher=words, env=given, grace_s=600.0)


def test_ranks_get_their_own_logs_and_both_environments(node: Node, tmp_path: Path) -> None:
    asked = launched(tmp_path, 'echo "$FROM_LAUNCHER $RANK $PYLAUNCH_RANK $OF_RANK [$PYLAUNCH_SOCKET]"', "echo second")
    asked.ranks[0].env["OF_RANK"] = "mine"
    controller = node.ran(asked)
    assert controller.text("0.out") == "yes 0 0 mine []\n"
    assert controller.text("1.out") == "second\n"
    assert controller.text("launcher.out") == "[0, 0]\n"
    assert controller.ended(None).exit_code == 0
    assert {ended.exit_code for ended in controller.all(protocol.RankEnd)} == {0}


@pytest.mark.parametrize("siblings", ["", "yes"])
def test_a_failed_rank_stops_its_siblings_and_only_it_is_to_blame(node: Node, tmp_path: Path, siblings: str) -> None:
    flag = tmp_path / "go"
    os.mkfifo(flag)
    asked = launched(tmp_path, f"read line < {flag}; exit 9", PATIENT, PATIENT, STOPS_SIBLINGS=siblings)
    controller = node.started(asked)
    pids = [controller.pid(rank) for rank in range(3)]
    flag.write_text("now\n")
    controller.until(protocol.Finished)
    assert [controller.ended(rank).stopped for rank in range(3)] == [False, True, True]
    assert controller.ended(0).exit_code == 9
    assert controller.ended(None)
    gone(*pids)


def test_a_rank_stopped_by_agent_and_launcher_receives_one_signal(node: Node, tmp_path: Path) -> None:
    count = "trap 'echo TERM; n=x$n; [ $n = x ] && sleep 0.5 && exit 0' TERM; echo up; while :; do sleep 0.05; done"
    flag = tmp_path / "go"
    os.mkfifo(flag)
    controller = node.started(launched(tmp_path, f"read line < {flag}; exit 9", count, STOPS_SIBLINGS="yes"))
    controller.until_text("1.out", "up\n")
    flag.write_text("now\n")
    controller.until(protocol.Finished)
    assert controller.text("1.out") == "up\nTERM\n"


def test_stop_ends_ranks_first_and_then_the_launcher(node: Node, tmp_path: Path) -> None:
    controller = node.started(launched(tmp_path, PATIENT, PATIENT))
    for rank in range(2):
        controller.pid(rank)
    controller.send(protocol.Stop(600.0, "enough"))
    controller.until(protocol.Finished)
    ends = [each.rank for each in controller.all(protocol.RankEnd)]
    assert (sorted(each for each in ends if each is not None), ends[2:]) == ([0, 1], [None])
    assert all(ended.stopped for ended in controller.all(protocol.RankEnd))


def test_ranks_of_a_killed_launcher_are_stopped(node: Node, tmp_path: Path) -> None:
    controller = node.started(launched(tmp_path, PATIENT, PATIENT))
    pids = [controller.pid(rank) for rank in range(2)]
    launcher = Path(f"/proc/{node.supervisor(controller)}/task/{node.supervisor(controller)}/children").read_text()
    os.kill(int(launcher), signal.SIGKILL)
    controller.until(protocol.Finished)
    assert controller.ended(None).signal == signal.SIGKILL
    assert [controller.ended(rank).signal for rank in range(2)] == [signal.SIGTERM] * 2
    gone(*pids)


def test_a_killed_supervisor_leaves_neither_launcher_nor_ranks(node: Node, tmp_path: Path) -> None:
    stubborn = "trap '' TERM HUP INT; echo up; while :; do sleep 0.1; done"
    controller = node.started(launched(tmp_path, stubborn, stubborn))
    pids = [controller.pid(rank) for rank in range(2)]
    supervisor = node.supervisor(controller)
    launcher = int(Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text())
    os.kill(supervisor, signal.SIGKILL)
    gone(launcher, *pids)


def test_a_launcher_that_fails_because_of_a_stop_signal_was_stopped(node: Node, tmp_path: Path) -> None:
    controller = node.started(launched(tmp_path, PATIENT))
    controller.pid(0)
    controller.send(protocol.Stop(60.0, "by ada", by_hand=True))
    controller.until(protocol.Finished)
    ended = controller.ended(None)
    assert ended.exit_code != 0
    assert ended.stopped
    assert [(stopping.reason, stopping.by_hand) for stopping in controller.all(protocol.Stopping)] == [("by ada", True)]


def test_no_attempt_is_prepared_after_a_person_has_stopped_the_run(node: Node, tmp_path: Path) -> None:
    """Neither one that was prepared then, whose controller is notified, nor the one after an attempt that is over."""
    prepared = node.prepared(task(tmp_path, PATIENT))
    elsewhere = node.attach()
    elsewhere.send(protocol.Stop(60.0, "by ada", by_hand=True))
    assert prepared.until(protocol.Stopping).by_hand
    prepared.until(protocol.Finished)
    (reason,) = node.refusal(task(tmp_path, PATIENT, run="r1.1"))
    assert (reason.code, reason.message) == ("stop-requested", "by ada")

    node.ran(task(tmp_path, "exit 1", run="r2"))
    late = node.attach("r2")
    late.send(protocol.Stop(60.0, "by eve", by_hand=True), protocol.Follow({}, []))
    late.until(protocol.Finished)
    (reason,) = node.refusal(task(tmp_path, PATIENT, run="r2.1"))
    assert (reason.code, reason.message) == ("stop-requested", "by eve")


def test_a_stop_because_of_a_failure_lets_the_next_attempt_through(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, PATIENT))
    controller.pid(0)
    controller.send(protocol.Stop(60.0, "rank 1 on n2 exited with code 1"))
    controller.until(protocol.Finished)
    node.prepared(task(tmp_path, PATIENT, run="r1.1"))


def test_a_launcher_keeps_its_files_in_a_directory_of_the_run_which_goes_at_the_end(node: Node, tmp_path: Path) -> None:
    """Ranks keep the TMPDIR that they were given."""
    files = node.root / "runs/r1/launcher"
    asked = launched(tmp_path, f"echo $TMPDIR; [ -d {files} ] && echo there", TMPDIR="/dev/shm")
    words = ["/bin/sh", "-c", 'mkdir "$1" && shift && exec "$@"', "sh", protocol.LAUNCHER_FILES, *asked.launcher]
    controller = node.ran(dataclasses.replace(asked, launcher=words))
    assert controller.text("0.out") == "/dev/shm\nthere\n"
    assert not files.exists()
