"""`pylaunch stacks`, and what a failed run keeps of the stacks of its ranks."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from pylaunch import api
from pylaunch.errors import ExitCode
from pylaunch.runs.events import RanksReleased
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended
from tests.waiting import wait_until

SOURCE = """
import os, sys, time
def load(): time.sleep(600)
def train(): load()
def evaluate(): load()
open(os.environ["PYLAUNCH_RANK"] + ".up", "w").close()
if os.environ["PYLAUNCH_RANK"] == "3":
    evaluate()
if os.environ["PYLAUNCH_RANK"] == "2":
    while not os.path.exists("fail"): time.sleep(0.02)
    sys.exit("no data")
train()
"""


@contextlib.contextmanager
def started(cluster: DirectoryCluster, directory: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """A run of four ranks on two nodes, all of which have begun; it is stopped at the end."""
    (directory / "train.py").write_text(SOURCE)
    run = cluster.begin(
        "start", "-i", str(cluster.inventory), "--framework", "command", "--workdir", str(directory),
        "--nproc-per-node", "2", *flags, "--", "/usr/bin/python3", "train.py",
    )  # fmt: skip
    try:
        wait_until(
            lambda: run.poll() is not None or all((directory / f"{rank}.up").exists() for rank in range(4)), "the ranks"
        )
        assert run.poll() is None, ended(run).stderr
        yield run
    finally:
        if run.poll() is None:
            run.terminate()
            ended(run)


def test_ranks_with_the_same_stack_are_shown_once_and_a_failed_run_keeps_them(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    with started(cluster, tmp_path) as run:
        (name,) = cluster.outcomes()

        together = "ranks 0-1 on n1: sleeping\n  load (train.py:3) <- train (train.py:4) <- <module> (train.py:12)\n"
        alone = "rank 3 on n2: sleeping\n  load (train.py:3) <- evaluate (train.py:5) <- <module> (train.py:8)\n"

        def in_place() -> bool:
            shown = cluster.run("stacks", name, code=ExitCode.DONE)
            return together in shown.stdout and alone in shown.stdout

        wait_until(in_place, "all ranks in their functions")

        def functions() -> list[str]:
            document = documented(cluster.run("stacks", name, "--json", "--rank", "3").stdout, "pylaunch stacks")
            assert document["recorded"] is False
            (rank,) = document["ranks"]
            assert (rank["rank"], rank["on"]) == (3, "n2")
            return [frame["function"] for thread in rank["threads"] for frame in thread["frames"]]

        wait_until(lambda: functions()[:2] == ["load", "evaluate"], "an answer of rank 3")

        (tmp_path / "fail").touch()
        assert ended(run).returncode == ExitCode.JOB_FAILED
    recorded = cluster.run("stacks", name)
    assert recorded.stdout.startswith(f"run {name}: 3 ranks before they were stopped, ")
    # On a machine that is busy for half a second, ranks have no time to answer.
    assert alone in recorded.stdout or "no answer in 0.5 s" in recorded.stdout


def test_a_program_reads_the_stacks_of_a_run_that_it_started(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = api.load_cluster(directories("n1").inventory)
    (tmp_path / "train.py").write_text("import time\ndef train(): time.sleep(600)\ntrain()\n")
    job = api.Job(("/usr/bin/python3", "train.py"), api.Framework.COMMAND, str(tmp_path), ranks_per_node=1)
    run = api.start(cluster, job, api.StartOptions())
    next(each for each in run.events() if isinstance(each, RanksReleased))

    def functions() -> list[str]:
        return [frame.function for view in run.stacks().views for thread in view.threads for frame in thread.frames]

    try:
        wait_until(lambda: functions() == ["train", "<module>"], "the stack of the rank")
    finally:
        run.stop(now=True)
