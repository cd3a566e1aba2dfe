"""Every verb ends on the second Ctrl-C, whatever hangs: nodes whose processes are stopped and whose pipes stay open."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode
from pylaunch.store.runs import user_and_host
from tests.starts.cluster import DirectoryCluster, appears, ended, made_of_directories, no_process_stays, says
from tests.waiting import wait_until

ENDS_S = 45.0
"""Limit after the second Ctrl-C, on a busy machine; nothing here would end on its own within a minute."""


def interrupt_twice(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        # The kernel makes one signal of two that are pending at the same time.
        wait_until(lambda: has_handled(process, signal.SIGINT), "the first signal is handled")
        process.send_signal(signal.SIGINT)
    return ended(process, ENDS_S)


def has_handled(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Return whether `process` waits for something else, and this signal is not pending; or whether it has ended."""
    if process.poll() is not None:
        return True
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    pending = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
    return status["State"].startswith("S") and not pending >> (number - 1) & 1


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DirectoryCluster, str]]:
    """A cluster and its live run; whatever is started on its node from now on is stopped (SIGSTOP) at once."""
    cluster = made_of_directories(tmp_path_factory.mktemp("stopped"), ["n1"])
    with no_process_stays(cluster):
        started = cluster.start("--detach", "--skip", "all", "--", "sleep", "600")
        assert ended(started).returncode == ExitCode.DONE
        (run,) = cluster.outcomes()
        cluster.nodes["n1"].stops()
        yield cluster, run
        cluster.nodes["n1"].goes_on()
        assert cluster.run("stop", run).returncode == ExitCode.DONE


def on_their_way(program: Path) -> list[processes.Process]:
    """Return the processes of `program` that have not stopped (SIGSTOP) yet."""
    return [each for each in processes.mine() if str(program) in each.command and each.state not in "TZ"]


@pytest.mark.parametrize(
    "words",
    [
        ("stop", "RUN"),
        ("attach", "RUN"),
        ("status", "RUN"),
        ("ps", "-i", "INVENTORY"),
        ("check", "-i", "INVENTORY"),
        ("clean", "-i", "INVENTORY"),
        ("start", "-i", "INVENTORY", "--workdir", "/", "--", "true"),
        ("start", "-i", "INVENTORY", "--workdir", "/", "--queue", "--", "true"),
    ],
    ids=" ".join,
)
def test_a_verb_ends_on_the_second_interrupt_whatever_hangs(
    stopped: tuple[DirectoryCluster, str], words: tuple[str, ...]
) -> None:
    cluster, run = stopped
    node = cluster.nodes["n1"].path
    wait_until(lambda: not on_their_way(node / "python3"), "the processes of the verb before, which all stop")
    hangs = node / "hanging"
    hangs.unlink(missing_ok=True)
    meant = {"INVENTORY": str(cluster.inventory), "RUN": run}
    verb = cluster.begin(*(meant.get(word, word) for word in words))
    appears(hangs)
    done = interrupt_twice(verb)
    assert done.returncode == ExitCode.INTERRUPTED
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_attach_leaves_the_run_alone(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1")
    assert ended(cluster.start("--detach", "--skip", "all", "--", "sleep", "600")).returncode == ExitCode.DONE
    (run,) = cluster.outcomes()
    attached = cluster.begin("attach", run)
    says(attached, f"following run {run}; Ctrl-C leaves it alone, pylaunch stop {run} stops it")
    attached.send_signal(signal.SIGINT)
    done = ended(attached, code=ExitCode.INTERRUPTED)
    assert f"run {run} continues; to stop it: pylaunch stop {run}" in done.stderr
    assert run in cluster.run("ps").stdout
    stopped = cluster.run("stop", run, code=ExitCode.DONE)
    assert "n1: clean" in stopped.stderr


def test_a_start_that_waits_for_stopped_agents_ends_on_the_second_interrupt(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    start = cluster.start("--skip", "all", "--", "sleep", "600")
    says(start, "started in")
    (agent,) = cluster.nodes["n1"].agents()
    os.kill(agent, signal.SIGSTOP)
    try:
        done = interrupt_twice(start)
    finally:
        os.kill(agent, signal.SIGCONT)
    assert done.returncode == ExitCode.INTERRUPTED
    assert "n1: not known to be clean" in done.stderr
    (outcome,) = cluster.outcomes().values()
    assert (outcome["status"], outcome["unproven"]) == ("stopped", ["n1"])


STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"


def begun(cluster: DirectoryCluster, *words: str) -> subprocess.Popen[str]:
    """Return a start whose two ranks have written a line."""
    start = cluster.start("--skip", "all", *words)
    assert start.stdout is not None
    assert sorted(start.stdout.readline() for _ in cluster.nodes) == ["n1:0 | up\n", "n2:1 | up\n"]
    return start


def test_a_second_interrupt_does_not_wait_for_ranks_that_ignore_the_first(
    directories: Callable[..., DirectoryCluster],
) -> None:
    start = begun(directories("n1", "n2"), "--grace", "600", "--", "sh", "-c", STUBBORN)
    start.send_signal(signal.SIGINT)
    says(start, "Ctrl-C again kills at once")
    start.send_signal(signal.SIGINT)
    assert "n[1-2]: clean" in ended(start, code=ExitCode.INTERRUPTED).stderr


def test_a_controller_that_is_killed_while_it_stops_a_run_has_stopped_it(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    start = begun(cluster, "--grace", "1", "--", "sh", "-c", STUBBORN)
    start.send_signal(signal.SIGINT)
    says(start, "stopping all nodes")
    start.kill()
    start.communicate()
    wait_until(
        lambda: not any(node.agents() for node in cluster.nodes.values()), "the nodes go on: KILL after a second"
    )
    (run,) = cluster.outcomes()
    assert f"run {run} stopped: interrupted" in cluster.run("status", run).stderr


DEAF = """
import time
from pylaunch.transport import interrupts

def deaf():
    word = "up"
    while True:
        try:
            print(word, flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            word = "no"

interrupts.install("enough", 130, lambda: None)
with interrupts.received_by({receiver}, {last_s}):
    deaf()
"""


@pytest.mark.parametrize("receiver", ["None", "lambda _: print('no', flush=True)"], ids=["deaf", "received"])
def test_who_does_not_listen_is_ended_soon_after_the_second_signal_and_at_once_by_the_third(receiver: str) -> None:
    for signals, last_s in ((2, 0.5), (3, 600)):
        program = DEAF.format(receiver=receiver, last_s=last_s)
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for number in range(signals):
            process.stdout.readline()
            process.send_signal(signal.SIGTERM if number else signal.SIGINT)
        done = ended(process, ENDS_S)
        assert (done.returncode, done.stderr) == (130, "enough\n")


LATE = """
import builtins, os, signal
from pylaunch.transport import interrupts

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid()):
        print("late", flush=True)
        kill(pid, {number})

interrupts.install("enough", 130, lambda: None)
builtins.late = Late()
interrupts.leaving()
raise SystemExit(3)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_arrives_while_python_exits_does_not_change_the_exit_code(number: signal.Signals) -> None:
    words = [sys.executable, "-c", LATE.format(number=int(number))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=ENDS_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "late\n", "")


def test_a_run_that_a_signal_stops_names_it(directories: Callable[..., DirectoryCluster]) -> None:
    cluster, reason = directories("n1"), "pylaunch received SIGTERM"
    start = cluster.start("--skip", "all", "--", "sleep", "600")
    says(start, "started in")
    start.send_signal(signal.SIGTERM)
    done = ended(start)
    assert f"stopped: {reason} ({user_and_host()})\n" in done.stderr
    assert [each["reason"] for each in cluster.outcomes().values()] == [f"{reason} ({user_and_host()})"]
