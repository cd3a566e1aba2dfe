"""Every command of README.md, section Use, as it is typed, in its order, in a directory that the nodes do not see.

Read from the file, so that a changed command is a changed test. What the reader supplies is supplied here: hosts, the
requirements, a train.py, the id of a run, and Ctrl-C for what does not end on its own. MORE has the words that are
added to some commands.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.documents import ROOT
from tests.lab.controller import must_be_clean, newest
from tests.lab.reader import DEADLINE_S, Reader
from tests.node_python import NODE_PYTHON
from tests.waiting import wait_until

README = ROOT / "README.md"
HELD = "/tmp/readme-holds-its-run"
TRAIN = f"""\
import os, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
while os.path.exists({HELD!r}):
    time.sleep(0.1)
"""
MORE = {
    "env lock": f"--python {NODE_PYTHON}",  # The nodes may have another Python than the one that runs the tests.
}
SUPPLIED = {
    "gpu[01-04]": "n[1-2]",
    "gpu03": "n2",
}
MAY_FIND_SOMETHING = {"bench": (ExitCode.DONE, ExitCode.JOB_FAILED)}
"""A busy machine has slow nodes."""


def commands(section: str) -> list[str]:
    """Return the command lines of a section of README.md, with their comments."""
    text = README.read_text().split(f"\n## {section}\n")[1].partition("\n## ")[0]
    return re.findall(r"^ {4,}(pylaunch .*)$", text, re.MULTILINE)


class ReadmeReader(Reader):
    """A reader of README.md, with what it takes for granted."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        super().__init__(lab, directory, HF_TOKEN="hf_of_the_reader")
        self._lab = lab
        (self.directory / ".pylaunch").symlink_to(lab.inventory.with_name(".pylaunch"))
        (self.directory / "requirements.txt").write_text(lab.inventory.with_name("requirements.txt").read_text())
        (self.directory / "vision").mkdir()
        (self.directory / "vision/requirements.txt").write_text("six==1.17.0\n")
        (self.directory / "train.py").write_text(TRAIN)
        (self.directory / "examples").symlink_to(ROOT / "examples")

    def types(self, line: str) -> subprocess.Popen[bytes]:
        """Start a command line; the run that it names is the newest, and hosts are those of the lab."""
        line = line.replace("7f3a", newest(self._lab)[:4]) if "7f3a" in line else line
        for verb, words in MORE.items():
            line = line.replace(f"pylaunch {verb} ", f"pylaunch {verb} {words} ")
        for word, own in SUPPLIED.items():
            line = line.replace(word, own)
        return super().types(line)

    def holds_runs(self) -> None:
        """Make the ranks of the runs from now on train until `releases_runs`."""
        for node in self._lab:
            node.run("touch", HELD)

    def releases_runs(self) -> None:
        """Let all ranks end."""
        for node in self._lab:
            node.run("rm", "-f", HELD)


@pytest.fixture
def reader(framework_lab: Lab, tmp_path: Path) -> Iterator[ReadmeReader]:
    made = ReadmeReader(framework_lab, tmp_path)
    yield made
    made.releases_runs()


def test_every_command_of_the_readme_works_as_typed(reader: ReadmeReader, framework_lab: Lab) -> None:
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
        code = reader.ends(line, typed)
        assert code in MAY_FIND_SOMETHING.get(verb, (ExitCode.DONE,)), f"{line}\n{reader.sees}"
        if verb == "stop" and attached is not None:
            assert attached.wait(DEADLINE_S) == ExitCode.INTERRUPTED
    must_be_clean(framework_lab)
