"""`start --debug-rank`: one rank has the terminal, with pdb and Ctrl-C, while the others wait."""

import os
import signal
import sys
import termios
from collections.abc import Callable
from importlib.util import find_spec

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster
from tests.starts.test_terminal import OnTerminal, on_terminal, started
from tests.waiting import wait_until

CTRL_C, STOP_KEY, UP = b"\x03", b"\x1d", b"\x1b[A"
DEBUGGED = """
import os, pathlib, time
rank, gate = int(os.environ["RANK"]), pathlib.Path({gate!r})
print("rank", rank, "begins", flush=True)
secret = 6 * 7
breakpoint()
if rank == 1:
    gate.touch()
else:
    print("a line of rank 0", flush=True)
while not gate.exists():
    time.sleep(0.02)
print("rank", rank, "done", flush=True)
"""
LOOPS = """
import os, pathlib, time
rank, gate = int(os.environ["RANK"]), pathlib.Path({gate!r})
print("rank", rank, "begins", flush=True)
if rank == 1:
    breakpoint()
print("rank", rank, "loops", flush=True)
while not gate.exists():
    time.sleep(0.02)
print("rank", rank, "done", flush=True)
"""


def ranks(cluster: DirectoryCluster, program: str) -> tuple[str, ...]:
    """The words of a start whose ranks run `program`."""
    script = cluster.inventory.with_name("train.py")
    script.write_text(program.format(gate=str(cluster.inventory.with_name("gate"))))
    return started(cluster, "--debug-rank", "1", "--", sys.executable, "-u", str(script))


def settings(terminal: OnTerminal) -> list[int | list[bytes | int]]:
    return termios.tcgetattr(terminal.terminal)


def is_cooked(terminal: OnTerminal) -> bool:
    local = settings(terminal)[3]
    assert isinstance(local, int)
    return local & (termios.ICANON | termios.ECHO | termios.ISIG) == termios.ICANON | termios.ECHO | termios.ISIG


def exit_code(terminal: OnTerminal) -> int:
    """Return the exit code of `pylaunch`, whose terminal stays open."""
    return os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1])


def test_a_person_debugs_one_rank_with_pdb_while_the_others_wait(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    terminal = on_terminal(cluster, *ranks(cluster, DEBUGGED))
    before = settings(terminal)
    at = terminal.shows(r"rank 1 on n2 has this terminal, Ctrl-C included; Ctrl-\] stops the run\n")
    at = terminal.shows(r"\(Pdb\) ", at)
    assert not is_cooked(terminal)
    terminal.press(b"p secret\r")
    at = terminal.shows(r"42\n.*\(Pdb\) ", at)
    if find_spec("readline"):
        terminal.press(UP + b" + rank\r")  # The history has the command before.
        at = terminal.shows(r"43\n.*\(Pdb\) ", at)
    terminal.press(b"c\r")
    terminal.shows(r"rank 1 done\n.*run \w+ done", at)
    assert exit_code(terminal) == ExitCode.DONE
    assert settings(terminal) == before
    text = terminal.written()
    assert "n1:0 | a line of rank 0\n" in text
    assert "n1:0 | rank 0 done\n" in text
    assert "| rank 1" not in text
    (run,) = cluster.outcomes()
    logs = cluster.run("logs", run, "--rank", "1").stdout
    assert "rank 1 begins\n" in logs
    assert "rank 1 done\n" in logs


def test_ctrl_c_leads_that_rank_back_into_pdb_and_reaches_no_other(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    terminal = on_terminal(cluster, *ranks(cluster, LOOPS))
    before = settings(terminal)
    at = terminal.shows(r"\(Pdb\) ")
    terminal.press(b"c\r")
    at = terminal.shows(r"rank 1 loops\n", at)
    terminal.shows(r"n1:0 \| rank 0 loops\n")
    terminal.press(CTRL_C)
    at = terminal.shows(r"Program interrupted.*\(Pdb\) ", at)
    terminal.press(b"!gate.touch()\r")
    at = terminal.shows(r"\(Pdb\) ", at)
    terminal.press(b"c\r")
    terminal.shows(r"rank 1 done\n.*run \w+ done", at)
    assert exit_code(terminal) == ExitCode.DONE
    assert "n1:0 | rank 0 done\n" in terminal.written()
    assert settings(terminal) == before


def test_the_stop_key_stops_the_run_and_ctrl_c_then_kills_it(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    terminal = on_terminal(cluster, *ranks(cluster, stubborn + DEBUGGED))
    before = settings(terminal)
    at = terminal.shows(r"\(Pdb\) ")
    terminal.press(b"p 'half of a comm" + STOP_KEY)
    at = terminal.shows("stopping; Ctrl-C again kills at once", at)
    wait_until(lambda: is_cooked(terminal), "the terminal is itself again")
    terminal.press(CTRL_C)
    terminal.shows(r"run \w+ stopped: .*clean \(no process", at)
    assert exit_code(terminal) == ExitCode.INTERRUPTED
    assert settings(terminal) == before


@pytest.mark.parametrize("ending", ["SIGTERM", "another rank fails", "its node is lost"])
def test_the_terminal_is_restored_however_the_run_ends(
    ending: str, directories: Callable[..., DirectoryCluster]
) -> None:
    cluster = directories("n1", "n2")
    gate = cluster.inventory.with_name("gate")
    program = DEBUGGED.replace('print("rank", rank, "done"', 'raise SystemExit(3)  # print("rank", rank, "done"')
    words = ranks(cluster, program)
    terminal = on_terminal(cluster, *words)
    before = settings(terminal)
    at = terminal.shows(r"\(Pdb\) ")
    if ending == "SIGTERM":
        os.kill(terminal.pid, signal.SIGTERM)
    elif ending == "another rank fails":
        gate.touch()
    else:
        (agent,) = cluster.nodes["n2"].agents()
        os.kill(agent, signal.SIGKILL)
    terminal.shows(r"run \w+.*clean", at)
    assert exit_code(terminal) in (ExitCode.INTERRUPTED, ExitCode.JOB_FAILED)
    assert settings(terminal) == before
    assert "trace" not in terminal.written()


def test_without_a_terminal_it_is_refused_and_says_what_ranks_read(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    refused = cluster.run(*started(cluster, "--debug-rank", "0", "--", "true"), code=ExitCode.USAGE)
    assert "--debug-rank 0: stdin is not a terminal" in refused.stderr
    assert "it reads /dev/null" in refused.stderr


def test_a_rank_without_the_terminal_reads_the_end_of_its_input(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1")
    cluster.run(*started(cluster, "--", "cat"), code=ExitCode.DONE)
