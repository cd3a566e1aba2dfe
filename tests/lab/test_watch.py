"""Watching a run from a second terminal, from another machine, through a cut network and a restart."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.lab import Lab
from lab.node_faults.faults import Cut, inject
from pylaunch.errors import ExitCode
from tests.lab.controller import Gate, Started, is_clean, must_be_clean, starting
from tests.waiting import DEADLINE_S, wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command")
MARK = "python3 -c 'from pylaunch import runtime; runtime.step(10 + runtime.rank())'"


class Watching:
    """A `pylaunch status --watch`, its stdout and stderr in files."""

    def __init__(self, lab: Lab, directory: Path, *arguments: str, state: Path | None = None) -> None:
        directory.mkdir()
        self._out, self._err = directory / "stdout", directory / "stderr"
        elsewhere = {} if state is None else {"XDG_STATE_HOME": str(state)}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                lab.command("status", "--watch", *arguments), env={**os.environ, **lab.environment, **elsewhere},
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

    @property
    def lines(self) -> list[str]:
        return self._out.read_text(errors="replace").splitlines()

    @property
    def latest(self) -> dict[str, Any]:
        """The last object of a watcher with --json; {} before the first."""
        whole = self._out.read_text(errors="replace").rpartition("\n")[0].splitlines()
        return dict(json.loads(whole[-1])) if whole else {}

    def says(self, text: str) -> None:
        """Wait until a line has `text` in it."""
        wait_until(lambda: any(text in line for line in self.lines), f"{text!r} in {self.lines} {self.stderr}")

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace")

    def ends(self) -> int:
        return self.process.wait(DEADLINE_S)


@contextlib.contextmanager
def watching(lab: Lab, directory: Path, *arguments: str, state: Path | None = None) -> Iterator[Watching]:
    """Watch the newest run; the watcher ends with the story."""
    made = Watching(lab, directory, *arguments, state=state)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


def with_usage(latest: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Return `latest` if it has the usage of so many nodes; {} otherwise."""
    return latest if sum(bool(node["usage"]) for node in latest.get("nodes", ())) == nodes else {}


@contextlib.contextmanager
def watching_it(lab: Lab, directory: Path, started: Started) -> Iterator[Watching]:
    """Watch `started` in plain lines from its first moment on."""
    started.says("connecting to")
    with watching(lab, directory / "plain", started.run) as made:
        yield made


def test_a_run_is_watched_from_here_and_from_elsewhere_and_notices_nothing(
    lab: Lab, tmp_path: Path, gate: Gate
) -> None:
    inventory = ("-i", str(lab.inventory))
    script = f"{MARK}; echo marked; {gate.wait}"
    with (
        starting(lab, tmp_path, *COMMAND, "--nproc-per-node", "2", "--", "sh", "-c", script) as started,
        watching_it(lab, tmp_path, started) as plain,
    ):
        started.says("| marked", times=6)
        with watching(lab, tmp_path / "elsewhere", "--json", *inventory, state=tmp_path / "state") as elsewhere:
            found = wait_until(lambda: with_usage(elsewhere.latest, 3), "what all nodes are busy with")
            assert (found["status"], found["running"], found["ranks"], found["hosts"]) == (
                "running",
                6,
                6,
                ["n1", "n2", "n3"],
            )
            assert (found["furthest"]["rank"], found["furthest"]["step"]) == (5, 15)
            assert (found["slowest"]["rank"], found["slowest"]["step"]) == (0, 10)
            assert all(0 < node["usage"]["memory_used"] < node["usage"]["memory"] for node in found["nodes"])
            elsewhere.process.send_signal(signal.SIGINT)
            assert elsewhere.ends() == ExitCode.DONE
            assert elsewhere.stderr.endswith(" continues\n")
        plain.says("6 of 6 ranks on n[1-3]")
        assert started.process.poll() is None
        gate.open()
        assert started.ends() == ExitCode.DONE, started.stderr
        assert plain.ends() == ExitCode.DONE, plain.stderr
    assert "done, 6 ranks on n[1-3]" in "\n".join(plain.lines)
    must_be_clean(lab)


def test_a_node_behind_a_cut_is_reported_and_found_again(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    with (
        starting(lab, tmp_path, *COMMAND, "--node-timeout", "60", "--", "sh", "-c", f"echo on; {gate.wait}") as started,
        watching_it(lab, tmp_path, started) as plain,
    ):
        plain.says("running")
        with inject(lab["n2"], Cut()):
            plain.says("no contact with n2")
        wait_until(lambda: plain.lines[-1].endswith("3 of 3 ranks on n[1-3]"), "contact again")
        gate.open()
        assert started.ends() == ExitCode.DONE, started.stderr
        assert plain.ends() == ExitCode.DONE, plain.stderr
    must_be_clean(lab)


def test_a_watcher_is_no_controller(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    """Nodes that hear a controller would wait for its decision about a node that is lost."""
    with (
        starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", f"echo on; {gate.wait}") as started,
        watching_it(lab, tmp_path, started) as plain,
    ):
        plain.says("3 of 3 ranks")
        started.kill()
        with inject(lab["n2"], Cut()):
            assert plain.ends() == ExitCode.DONE, plain.stderr
        assert any("stopping" in line or "no contact with n2" in line for line in plain.lines), plain.lines
    wait_until(lambda: is_clean(lab), "all nodes have stopped of themselves")
    assert lab.pylaunch("status", "--watch", started.run).stdout.startswith("run ")


def test_the_next_attempt_is_watched_as_well(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    second = Gate(lab)
    script = f"echo on; {gate.wait}; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 9; {second.wait}"
    with (
        starting(lab, tmp_path, *COMMAND, "--max-restarts", "1", "--", "sh", "-c", script) as started,
        watching_it(lab, tmp_path, started) as plain,
    ):
        plain.says("3 of 3 ranks")
        gate.open()
        plain.says("(restart 1 of 1): 3 of 3 ranks on n[1-3]")
        second.open()
        assert started.ends() == ExitCode.DONE, started.stderr
        assert plain.ends() == ExitCode.DONE, plain.stderr
    second.remove()
    assert any("done, 3 ranks" in line for line in plain.lines)
    must_be_clean(lab)
