"""A run on one node, from Prepare to Finished, over the wire."""

import json
import os
import pwd
import signal
import sys
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.run.environment import user
from pylaunch.agent.shared import processes
from pylaunch.base import rank_environment
from tests.agent.controller import Node, gone, is_alive, task
from tests.waiting import wait_until

TIDY = "trap 'exit 5' TERM; echo up; while :; do sleep 0.1; done"
PATIENT = "echo up; exec sleep 60"


def test_ranks_run_to_their_end_and_the_node_reports_that_it_is_clean(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "echo one; echo two >&2", "exit 0"))
    finished = controller.until(protocol.Finished)
    assert finished.leftovers == []
    assert controller.text("0.out") == "one\n"
    assert controller.text("0.err") == "two\n"
    assert [ended.exit_code for ended in controller.all(protocol.RankEnd)] == [0, 0]
    assert controller.receive() is None
    gone(node.supervisor(controller))


def test_a_rank_that_outlives_sigterm_after_its_own_exception_has_failed_on_its_own(node: Node, tmp_path: Path) -> None:
    """Libraries take seconds between the exception and the exit of Python."""
    slow = "trap '' TERM; echo 'ValueError: mine' >&2; touch wrote; until [ -e gone ]; do sleep 0.01; done; exit 1"
    tidy = "trap 'echo bye >&2; touch gone; exit 1' TERM; echo 'ValueError: logged' >&2; while :; do sleep 0.01; done"
    first = "until [ -e wrote ]; do sleep 0.01; done; exit 3"
    controller = node.ran(task(tmp_path, first, slow, tidy))
    ends = {ended.rank: ended for ended in controller.all(protocol.RankEnd)}
    assert [ends[rank].obeyed for rank in range(3)] == [False, False, True]
    assert ends[1].error == "ValueError: mine"
    assert 0.0 < ends[1].raised_at < ends[0].time


def test_nothing_of_a_rank_runs_before_release(node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, f"touch {tmp_path}/ran"))
    controller.send(protocol.Ping(leads=True))
    controller.until(protocol.Pong)
    assert not (tmp_path / "ran").exists()
    controller.send(protocol.Release(0.0))
    controller.until(protocol.RankEnd)
    assert (tmp_path / "ran").exists()


def test_finished_waits_for_the_follow_of_the_releasing_controller(node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, "echo short"))
    controller.send(protocol.Release(0.0))
    gone(controller.pid(0))
    controller.until(protocol.RankEnd)
    controller.send(protocol.Follow({}, None))
    controller.until(protocol.Finished)
    assert controller.text("0.out") == "short\n"


def test_ranks_start_no_earlier_than_the_time_of_the_release(node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, "true"))
    controller.send(protocol.Ping(leads=True))
    at = controller.until(protocol.Pong).time + 2
    controller.send(protocol.Release(at))
    assert controller.until(protocol.Released).time >= at


def test_a_release_far_ahead_is_refused_and_nothing_starts(node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, "touch started"))
    controller.send(protocol.Ping(leads=True))
    controller.send(protocol.Follow({}, None), protocol.Release(controller.until(protocol.Pong).time + 60))
    assert "s ahead on this node's clock, more than 5 s" in controller.until(protocol.Stopping).reason
    assert controller.until(protocol.Finished).leftovers == []
    assert not (tmp_path / "started").exists()


def test_a_rank_gets_exactly_the_environment_of_its_task_and_its_user_in_the_working_directory(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_CONTROLLER", "1")
    words = ["/usr/bin/python3", "-c", "import json, os; print(json.dumps([dict(os.environ), os.getcwd()]))"]
    asked = task(tmp_path, words, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    asked.ranks[0].env["RANK"] = "0"
    controller = node.ran(asked)
    traces = str(node.root / "runs/r1/ranks/nccl-trace-")
    recorder = {
        "TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_TEMP_FILE": traces, "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    }  # fmt: skip
    expected = {
        **user(), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "RANK": "0", "PYLAUNCH_RUN": "r1",
        "PYLAUNCH_ROOT": str(node.root), "PYLAUNCH_RANK": "0", "PYLAUNCH_LOCAL_RANK": "0", "PYLAUNCH_NODE_RANK": "0",
        "PYTHONPATH": f"{node.archive}/pylaunch/agent/in_rank:{node.archive}",
        "PYLAUNCH_RANK_SOCKET": str(node.root / "runs/r1/ranks/0.sock"),
        "PYLAUNCH_HOSTFILE": str(node.root / "runs/r1/hostfile"),
        "PYLAUNCH_STEP_FILE": str(node.root / "runs/r1/ranks/0.step"),
        "TORCHELASTIC_ERROR_FILE": str(node.root / "runs/r1/ranks/0.error.json"), **recorder,
    }  # fmt: skip
    env, directory = json.loads(controller.text("0.out"))
    assert env == expected
    own = env.keys() - user().keys() - recorder.keys() - asked.env.keys() - asked.ranks[0].env.keys()
    assert own == {*rank_environment.AGENT_VARIABLES, rank_environment.RUNTIME_PATH}
    assert env["HOME"] == pwd.getpwuid(os.getuid()).pw_dir
    assert directory == str(tmp_path)


def test_a_rank_inherits_no_descriptor_signal_or_terminal(node: Node, tmp_path: Path) -> None:
    script = (
        "import os, signal; print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1]);"
        "print([s.name for s in signal.valid_signals() if signal.getsignal(s) is signal.SIG_IGN]);"
        "print(os.getsid(0) == os.getpid(), os.read(0, 1))"
    )
    controller = node.ran(task(tmp_path, ["/usr/bin/python3", "-I", "-c", script]))
    # Python itself ignores PIPE and XFSZ.
    assert controller.text("0.out").splitlines() == ["['0', '1', '2']", "['SIGPIPE', 'SIGXFSZ']", "True b''"]


@pytest.mark.parametrize(
    ("program", "exit_code", "number"),
    [
        ("exit 0", 0, None),
        ("exit 3", 3, None),
        ("exit 143", 143, None),
        ("kill -SEGV $$", None, signal.SIGSEGV),
        ("kill -KILL $$", None, signal.SIGKILL),
        ("kill -TERM $$", None, signal.SIGTERM),
    ],
)
def test_how_a_rank_ended_is_reported_exactly(
    node: Node, tmp_path: Path, program: str, exit_code: int | None, number: int | None
) -> None:
    controller = node.started(task(tmp_path, f"echo last words >&2; {program}"))
    ended = controller.until(protocol.RankEnd)
    assert (ended.exit_code, ended.signal, ended.stopped) == (exit_code, number, False)
    assert ended.last_lines == ("last words",)


@pytest.mark.parametrize(("name", "code", "words"), [("missing", 127, "No such file"), ("plain", 126, "Exec format")])
def test_a_program_that_vanished_after_the_checks_ends_its_rank_with_the_reason(
    node: Node, tmp_path: Path, name: str, code: int, words: str
) -> None:
    program = tmp_path / name
    program.write_text("no program\n")
    program.chmod(0o755)
    controller = node.prepared(task(tmp_path, [str(program)]))
    if name == "missing":
        program.unlink()
    controller.send(protocol.Release(0.0))
    ended = controller.until(protocol.RankEnd)
    assert ended.exit_code == code
    assert words in ended.last_lines[-1]
    assert str(program) in ended.last_lines[-1]


def test_a_rank_that_fails_stops_the_others_of_its_node(node: Node, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    os.mkfifo(flag)
    controller = node.started(
        task(
            tmp_path,
            f"read line < {flag}; exit 9",
            PATIENT,
            TIDY,
            grace_s=600.0,
        )
    )
    pids = [controller.pid(rank) for rank in range(3)]
    controller.until_text("1.out", "up\n")
    controller.until_text("2.out", "up\n")
    flag.write_text("now\n")
    controller.until(protocol.Finished)
    first, second, third = (controller.ended(rank) for rank in range(3))
    assert (first.exit_code, first.stopped) == (9, False)
    assert (second.signal, second.stopped) == (signal.SIGTERM, True)
    assert (third.exit_code, third.stopped) == (5, True)
    assert controller.all(protocol.Stopping)[0].reason == "rank 0 ended with exit code 9"
    gone(*pids)


def test_stop_ends_ranks_with_term_and_is_reported_once(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, PATIENT, PATIENT))
    controller.pid(1)
    controller.send(protocol.Stop(60.0, "because"), protocol.Stop(60.0, "again"))
    finished = controller.until(protocol.Finished)
    assert finished.leftovers == []
    assert [stopping.reason for stopping in controller.all(protocol.Stopping)] == ["because"]
    assert {ended.signal for ended in controller.all(protocol.RankEnd)} == {signal.SIGTERM}


LOADER = """\
import os, signal, sys
signals, gate = sys.argv[1:3]
answering, answered = os.pipe()
def note(who):
    with open(signals, "a") as file:
        file.write(who + "\\n")
def save():
    os.write(1, b"saving\\n")
    open(gate).readline()
    os.kill(loader, signal.SIGWINCH)
    os.read(answering, 1)
    note("rank")
    os.write(1, b"saved half a li")
    os._exit(0)
# Blocked, and taken one at a time: a signal that arrives before the wait is not lost.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGWINCH])
loader = os.fork()
if loader:
    os.write(1, b"up\\n")
    signal.sigwait([signal.SIGTERM])
    save()
while True:
    if signal.sigwait([signal.SIGTERM, signal.SIGWINCH]) == signal.SIGTERM:
        note("loader")
    else:
        os.write(answered, b".")
"""
"""A rank that saves until the gate opens, and asks its loader before it reports the signal: the loader would have
taken a TERM first, because that has the lower number."""


def test_term_goes_to_ranks_and_not_to_their_loaders_and_the_last_half_line_is_kept(node: Node, tmp_path: Path) -> None:
    signals, gate = tmp_path / "signals", tmp_path / "gate"
    os.mkfifo(gate)
    controller = node.started(task(tmp_path, [sys.executable, "-c", LOADER, str(signals), str(gate)]))
    controller.until_text("0.out", "up\n")
    controller.send(protocol.Stop(600.0, "checkpoint, please"))
    controller.until_text("0.out", "up\nsaving\n")
    # One thread obeys: once it answers, it has sent all signals of this stop.
    controller.send(protocol.Ping(leads=True))
    controller.until(protocol.Pong)
    gate.write_text("saved\n")
    assert controller.until(protocol.Finished).leftovers == []
    assert signals.read_text().splitlines()[0] == "rank"
    assert controller.text("0.out") == "up\nsaving\nsaved half a li"
    assert controller.ended(0).exit_code == 0


@pytest.mark.parametrize("hides", ["", "env -i"], ids=["by its mark", "by descent"])
def test_a_daemon_that_a_rank_left_behind_is_found_and_ended(node: Node, tmp_path: Path, hides: str) -> None:
    os.mkfifo(tmp_path / "gate")
    script = f"setsid {hides} sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 60' & cat gate"
    controller = node.started(task(tmp_path, script))
    pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the daemon"))
    assert is_alive(pid)
    (tmp_path / "gate").write_text("")
    assert controller.until(protocol.Finished).leftovers == []
    assert not is_alive(pid)


def test_a_run_whose_controller_disconnects_before_the_release_is_aborted(node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, "touch ran"))
    controller.kill()
    gone(node.supervisor(controller))
    assert not (tmp_path / "ran").exists()
    assert '"aborted"' in (node.root / "runs/r1/outcome.json").read_text()


def test_a_killed_relay_does_not_affect_the_run_and_attach_continues_where_it_was(node: Node, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    os.mkfifo(flag)
    first = node.started(task(tmp_path, f"for i in 1 2 3; do echo $i; done; read line < {flag}; echo 4; echo 5"))
    first.until_text("0.out", "1\n2\n3\n")
    offset = first.all(protocol.Output)[-1].offset
    first.kill()
    second = node.attach()
    hello = second.until(protocol.Hello)
    assert (hello.phase, hello.running) == ("running", [0])
    second.send(protocol.Follow({"0.out": offset}, None))
    second.until(protocol.CaughtUp)
    assert [started.rank for started in second.all(protocol.RankStarted)] == [0]
    flag.write_text("now\n")
    second.until(protocol.Finished)
    assert second.text("0.out") == "4\n5\n"


def test_a_run_that_is_over_is_replayed_from_its_files(node: Node, tmp_path: Path) -> None:
    first = node.ran(task(tmp_path, "echo hello; exit 4", "echo other"))
    gone(node.supervisor(first))
    controller = node.attach()
    assert controller.until(protocol.Hello).phase == "finished"
    controller.send(protocol.Ping(leads=True), protocol.Follow({}, ["0.out"]))
    controller.until(protocol.Finished)
    assert controller.text("0.out") == "hello\n"
    assert controller.text("1.out") == ""
    assert controller.ended(0).exit_code == 4
    assert controller.all(protocol.CaughtUp)
    assert "over" in node.open().until(protocol.Failed).message


def test_the_supervisor_holds_nothing_of_the_connection_that_started_it(node: Node, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    controller = node.prepared(task(tmp_path, PATIENT))
    os.close(writing)
    files = set(processes.open_files(node.supervisor(controller)) or ())
    ours = {str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in (controller._to, controller._from, reading)}
    assert files
    assert not files & ours
    os.close(reading)


def test_hostile_names_survive(agent_archive: Path, tmp_path: Path) -> None:
    hostile = "a 'b' \"c\" $d;`e`\n*é" + "x" * 90
    directory = tmp_path / hostile
    directory.mkdir()
    node = Node(directory / "root", agent_archive)
    words = [sys.executable, "-c", "import sys, os; print(sys.argv[1:], os.getcwd())", hostile]
    controller = node.ran(task(directory, words))
    assert controller.text("0.out") == f"{[hostile]} {directory}\n"
