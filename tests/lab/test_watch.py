"""`pylaunch status --watch` beside a run whose network is cut."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.lab import Lab
from lab.node_faults.faults import Cut, inject
from pylaunch.errors import ExitCode
from tests.lab.controller import Gate, Started, is_clean, must_be_clean, starting
from tests.waiting import DEADLINE_S, wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command")
Lines = Callable[[], list[str]]


@contextlib.contextmanager
def watching(lab: Lab, directory: Path, started: Started) -> Iterator[tuple[subprocess.Popen[bytes], Lines]]:
    """Watch `started` in plain lines; yield the watcher and what it has printed so far."""
    started.says("started in")
    printed = directory / "watched"
    with printed.open("wb") as out:
        words = lab.command("status", "--watch", started.run)
        watcher = subprocess.Popen(
            words, env={**os.environ, **lab.environment}, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield watcher, lambda: printed.read_text(errors="replace").splitlines()
    finally:
        watcher.kill()
        watcher.wait()


def test_a_node_behind_a_cut_is_reported_and_found_again(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    with (
        starting(lab, tmp_path, *COMMAND, "--node-timeout", "60", "--", "sh", "-c", f"echo on; {gate.wait}") as started,
        watching(lab, tmp_path, started) as (watcher, lines),
    ):
        wait_until(lambda: "3 of 3 ranks on n[1-3]" in "".join(lines()[-1:]), "all ranks")
        with inject(lab["n2"], Cut()):
            wait_until(lambda: any("no contact with n2" in line for line in lines()), "the node is reported")
        wait_until(lambda: lines()[-1].endswith("3 of 3 ranks on n[1-3]"), "contact again")
        gate.open()
        assert started.ends() == ExitCode.DONE, started.stderr
        assert watcher.wait(DEADLINE_S) == ExitCode.DONE, lines()
    must_be_clean(lab)


def test_a_watcher_is_no_controller(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    """Nodes that hear a controller would wait for its decision about a node that is lost."""
    with (
        starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", f"echo on; {gate.wait}") as started,
        watching(lab, tmp_path, started) as (watcher, lines),
    ):
        wait_until(lambda: any("3 of 3 ranks" in line for line in lines()), "all ranks")
        started.kill()
        with inject(lab["n2"], Cut()):
            assert watcher.wait(DEADLINE_S) == ExitCode.DONE, lines()
        assert any("stopping" in line or "no contact with n2" in line for line in lines()), lines()
    wait_until(lambda: is_clean(lab), "all nodes have stopped of themselves")
