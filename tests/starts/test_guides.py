"""Every command line of each guide, as it is typed, in the order of the page, on a fresh cluster of directories.

What the reader has is supplied here: hosts, programs, the id of a run (the newest one), Ctrl-C for a line that follows
a run. Lines for real nodes run in tests/lab/test_readme.py; tests/guides.py lists those that run in no test.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.documented_commands import REST, ROOT, DocumentedCommand, python_in, samples_in
from tests.guides import GUIDES, on_directories
from tests.hinted_commands import hints_must_be_accepted
from tests.reader import DEADLINE_S, Reader
from tests.starts.cluster import DirectoryCluster
from tests.starts.test_job import SERVER, TRAINER
from tests.unit.verdict.hangs.views import CASES
from tests.waiting import wait_until

TRAIN = """\
import os, pathlib, time
rank, here = os.environ["RANK"], pathlib.Path({here!r})
print("rank", rank, "loss=0.5", flush=True)
while (here / "held").exists():
    time.sleep(0.05)
if (here / "fails").exists():
    raise RuntimeError("loss is NaN")
"""
LOG = "RuntimeError: CUDA error: out of memory\n"
UNKNOWN = "loading the plan\nbuilding the model\nRuntimeError: shard 17 is not the one that follows shard 15\n"
DUMPS = CASES / "dumps/loads_data"

HOSTS = {
    "add-or-replace-a-node.md": ("gpu01", "gpu02", "gpu03"),
    "logs.md": ("n1", "n2"),
    "roles.md": ("n1", "n2", "n3", "n4"),
    "runs.md": ("gpu01", "gpu02", "gpu03"),
    "shell.md": ("gpu01", "gpu02", "gpu03", "gpu04"),
}
OF_A_FAILED_RUN = {"explain.md", "report.md"}
"""Their runs fail, and one has failed before the first line."""

OF_A_LIVE_RUN = {"logs.md", "runs.md"}
"""Ranks train until a line of LETS_RUNS_END is typed."""

LETS_RUNS_END = re.compile(r"pylaunch (rerun|start --save-logs)\b")
JOB = "51c0e7aa"
"""Id of a job of several roles on the pages."""

IN_ANOTHER_TERMINAL = re.compile(rf"pylaunch (attach |start {REST} -- )")
"""Follows the run to its end, while the reader types the next lines."""

SHOWS_WHAT_IT_PRINTS = re.compile(r"pylaunch explain run\.log|pylaunch start .*torchrun --standalone")
"""The page shows lines that this machine prints, too: no sizes, times or names of a real run."""

MAY_FIND_SOMETHING = {"check", "clean"}
"""This machine may have findings, and leftovers of others."""


class Guide:
    """A reader of one guide, with a cluster."""

    def __init__(self, page: str, cluster: DirectoryCluster) -> None:
        self.page = page
        self._cluster, self._here = cluster, cluster.inventory.parent
        command = (sys.executable, "-m", "pylaunch")
        self._reader = Reader(
            self._here / "project", command,
            {
                "HOME": str(self._here / "home"), "XDG_STATE_HOME": str(cluster.state), "PYTHONPATH": str(ROOT),
                "HF_HOME": "/shared/hf", "WANDB_API_KEY": "of the reader",
            },
        )  # fmt: skip
        self._beside: list[subprocess.Popen[bytes]] = []
        self._supply()

    def _supply(self) -> None:
        inventory = self._cluster.inventory.read_text().replace(" pylaunch_node", " topology=rack1 pylaunch_node")
        for name, text in {
            "cluster.ini": f"{inventory}pylaunch_python=/usr/bin/python3\n",
            "train.py": self._program(),
            "package/__init__.py": "",
            "package/train.py": "",
            "base.yaml": "lr: 0.1\n",
            "ckpt/step-100.pt": "weights",
            "job.env": "NCCL_DEBUG=WARN\n",
            "myriad.log": LOG,
            "run.log": UNKNOWN,
            "stages.log": UNKNOWN,
            "lists.log": UNKNOWN,
            "listener.log": UNKNOWN,
            "accelerate.env": "ACCELERATE_MIXED_PRECISION=bf16\n",
            "job.toml": (ROOT / "examples/roles/job.toml").read_text(),
            "rollout.py": SERVER,
            "trainer.py": TRAINER,
            "rank_0.log": LOG,
            "rank_1.log": LOG,
            "torchelastic_x/attempt_0/0/stderr.log": LOG,
            ".pylaunch/known_hosts": "",
        }.items():
            file = self._reader.directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        python = self._here / "env/bin/python"
        python.parent.mkdir(parents=True)
        python.symlink_to("/usr/bin/python3")
        self._reader.has_program("kubectl", f"echo '[pod/train-0] {LOG.strip()}'")

    def _program(self) -> str:
        """The program that the page gives to save, or one whose end this test decides."""
        if self.page == "first-cluster.md":
            return python_in(ROOT / "docs/guides" / self.page)[0]
        return TRAIN.format(here=str(self._here))

    def begins(self) -> None:
        """Be at the first line of the page."""
        if self.page in OF_A_LIVE_RUN:
            (self._here / "held").touch()
        if self.page in OF_A_FAILED_RUN:
            (self._here / "fails").touch()
            assert self._reader.types_to_its_end("pylaunch start -- train.py") == ExitCode.JOB_FAILED

    def types(self, command: DocumentedCommand) -> None:
        """Type a line of the page. Fail the test if it does not end as the page says, or prints a refused hint."""
        line = self._supplied(command.typed)
        if IN_ANOTHER_TERMINAL.search(command.typed) and self.page in OF_A_LIVE_RUN:
            self._beside.append(self._reader.types(line))
            wait_until(lambda: "loss=" in self._reader.sees, f"output of {line}", DEADLINE_S)
            return
        if LETS_RUNS_END.search(line):
            self.ends()
        code = self._reader.types_to_its_end(line)
        assert code in self._expected(command), f"{line}\n{self._reader.sees}"
        if SHOWS_WHAT_IT_PRINTS.search(line):
            seen = [each.strip() for each in self._reader.sees.splitlines()]
            assert [each for each in samples_in(ROOT / "docs/guides" / self.page)[line] if each not in seen] == []
        hints_must_be_accepted(self._reader.sees)

    def ends(self) -> None:
        """Let all runs end, and wait for the lines in other terminals."""
        (self._here / "held").unlink(missing_ok=True)
        while self._beside:
            assert self._beside.pop().wait(DEADLINE_S) in (ExitCode.DONE, ExitCode.INTERRUPTED)

    def _expected(self, command: DocumentedCommand) -> tuple[int, ...]:
        if " start " in f" {command.typed}" and self.page in OF_A_FAILED_RUN:
            return (ExitCode.JOB_FAILED,)
        finds = re.search(r"pylaunch (\w+)", command.typed)
        may_find = finds is not None and finds[1] in MAY_FIND_SOMETHING
        return (ExitCode.DONE, ExitCode.CLUSTER_NOT_READY) if may_find else (ExitCode.DONE,)

    def _supplied(self, line: str) -> str:
        """Replace placeholders of the page with values of this reader."""
        for word, own in {
            f" {REST} ": " --nproc-per-node 4 " if self.page == "logs.md" else " ",
            "gpu03,gpu07": "gpu01,gpu02",
            "--nodes 8 --min-nodes 6": "--nodes 3 --min-nodes 2",
            "/shared/envs/train/": f"{self._here}/env/",
            "/data/ckpt": str(self._here),
            "/tmp/torchelastic_x": "torchelastic_x",
            "--dumps DIR": f"--dumps {DUMPS}",
        }.items():
            line = line.replace(word, own)
        if JOB in line:
            line = line.replace(JOB, str(json.loads(self._newest().read_text())["plan"]["job"]["part"]["job"]))
        return line.replace("7f3a", self._newest().parent.name[:4]) if "7f3a" in line else line

    def _newest(self) -> Path:
        """Return the plan of the newest run."""
        plans = self._cluster.state.glob("pylaunch/runs/*/plan.json")
        return max(plans, key=lambda plan: plan.stat().st_mtime_ns)


@pytest.fixture
def guide(
    request: pytest.FixtureRequest, directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> Iterator[Guide]:
    page = str(request.param)
    made = Guide(page, directories(*HOSTS.get(page, ("gpu01", "gpu02"))))
    yield made
    made.ends()


@pytest.mark.parametrize("guide", [path.name for path in GUIDES if on_directories(path.name)], indirect=True)
def test_every_command_of_a_guide_works_as_typed(guide: Guide) -> None:
    guide.begins()
    for command in on_directories(guide.page):
        guide.types(command)
