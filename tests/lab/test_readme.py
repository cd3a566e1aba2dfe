"""Every command of README.md, section Use, as it is typed, in its order, in a directory that the nodes do not see.

Read from the file, so that a changed command is a changed test. What the reader supplies is supplied here: hosts, the
requirements, a train.py, the id of a run, and Ctrl-C for what does not end on its own. MORE has the words that are
added to some commands.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.features.lab.cluster.lab import Lab
from tests.lab.controller import must_be_clean, newest
from tests.node_python import NODE_PYTHON
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

README = Path(__file__).parents[2] / "README.md"
HELD = "/tmp/readme-holds-its-run"
TRAIN = f"""\
import os, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
while os.path.exists({HELD!r}):
    time.sleep(0.1)
"""
DEADLINE_S = 300.0
MORE = {
    "env lock": f"--python {NODE_PYTHON}",  # The nodes may have another Python than the one that runs the tests.
    "bench": "--max-size 64K --iterations 5",  # All sizes take longer than all other commands together.
}
MAY_FIND_SOMETHING = {"bench": (ExitCode.DONE, ExitCode.JOB_FAILED)}
"""A busy machine has slow nodes."""


def commands(section: str) -> list[str]:
    """Return the command lines of a section of README.md, with their comments."""
    text = README.read_text().split(f"\n## {section}\n")[1].partition("\n## ")[0]
    return re.findall(r"^ {4,}(pylaunch .*)$", text, re.MULTILINE)


class Reader:
    """Somebody who types in a directory that no node sees."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self._lab = lab
        self._directory = directory / "project"
        self._directory.mkdir()
        (self._directory / "cluster.ini").write_text(lab.inventory.read_text())
        (self._directory / ".pylaunch").symlink_to(lab.inventory.with_name(".pylaunch"))
        (self._directory / "requirements.txt").write_text(lab.inventory.with_name("requirements.txt").read_text())
        (self._directory / "train.py").write_text(TRAIN)
        programs = directory / "bin"
        programs.mkdir()
        (programs / "pylaunch").write_text(f'#!/bin/sh\nexec {shlex.join(lab.command())} "$@"\n')
        (programs / "pylaunch").chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self._env = {**os.environ, **lab.environment, "PATH": path, "HF_TOKEN": "hf_of_the_reader"}
        self._outputs = directory
        self._typed = 0

    def types(self, line: str) -> subprocess.Popen[bytes]:
        """Start a command line; the run that it names is the newest."""
        line = line.replace("7f3a", newest(self._lab)[:4]) if "7f3a" in line else line
        for verb, words in MORE.items():
            line = line.replace(f"pylaunch {verb} ", f"pylaunch {verb} {words} ")
        self._typed += 1
        with self._output.open("wb") as out:
            return subprocess.Popen(
                ("bash", "-c", line), cwd=self._directory, env=self._env,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def _output(self) -> Path:
        return self._outputs / f"output-{self._typed}"

    @property
    def sees(self) -> str:
        """The output of the last command line."""
        return self._output.read_text(errors="replace")

    def interrupts(self, typed: subprocess.Popen[bytes]) -> int:
        """Press Ctrl-C once there is output, and return the exit code."""
        wait_until(lambda: self.sees or typed.poll() is not None, "output", DEADLINE_S)
        typed.send_signal(signal.SIGINT)
        return typed.wait(DEADLINE_S)

    def holds_runs(self) -> None:
        """Make the ranks of the runs from now on train until `releases_runs`."""
        for node in self._lab:
            node.run("touch", HELD)

    def releases_runs(self) -> None:
        """Let all ranks end."""
        for node in self._lab:
            node.run("rm", "-f", HELD)


@pytest.fixture
def reader(framework_lab: Lab, tmp_path: Path) -> Iterator[Reader]:
    made = Reader(framework_lab, tmp_path)
    yield made
    made.releases_runs()


def test_every_command_of_the_readme_works_as_typed(reader: Reader, framework_lab: Lab) -> None:
    lines = commands("Use")
    verbs = [line.split()[1] for line in lines]
    assert {"trust", "env", "provision", "verify", "check", "start", "bench", "attach", "stop", "clean"} <= set(verbs)
    attached: subprocess.Popen[bytes] | None = None
    for verb, line in zip(verbs, lines, strict=True):
        if "--detach" in line:
            reader.holds_runs()
        if verb == "rerun":
            reader.releases_runs()
        typed = reader.types(line)
        if (
            verb == "attach"
        ):  # It follows the run until the reader stops it in another terminal, which is the next line.
            wait_until(lambda: reader.sees, "output of attach", DEADLINE_S)
            attached = typed
            continue
        follows = re.search(r" (-f|--watch)\b", line) is not None
        code = reader.interrupts(typed) if follows else typed.wait(DEADLINE_S)
        assert code in MAY_FIND_SOMETHING.get(verb, (ExitCode.DONE,)), f"{line}\n{reader.sees}"
        if verb == "stop" and attached is not None:
            assert attached.wait(DEADLINE_S) == ExitCode.INTERRUPTED
    must_be_clean(framework_lab)
