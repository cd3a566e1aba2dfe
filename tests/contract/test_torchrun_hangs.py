"""Hangs of real gloo ranks: the flight recorder of the provisioned torch shows which rank the others wait for."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories, no_process_stays

ENDS_S = 240.0
SCRIPT = """\
import os, sys, threading, time
import torch
import torch.distributed as dist
from pylaunch.runtime import step

RANK = int(os.environ["RANK"])

def train_step():
    dist.all_reduce(torch.ones(4))

def reduce_loss():
    dist.all_reduce(torch.ones(1))

def wait_for_cache():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def evaluate():
    time.sleep(12)

dist.init_process_group("gloo")
for number in range(12):
    train_step()
    reduce_loss()
    step(number)
fault = sys.argv[1]
if fault == "lock" and RANK == 1:
    wait_for_cache()
if fault == "skip":
    if RANK != 1:
        reduce_loss()
    for number in range(3):
        train_step()
    if RANK == 1:
        wait_for_cache()
if fault == "evaluation" and RANK == 0:
    evaluate()
train_step()
dist.destroy_process_group()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DirectoryCluster]:
    """Three nodes, which are directories of this machine."""
    made = made_of_directories(tmp_path, ["n1", "n2", "n3"])
    with no_process_stays(made):
        yield made


@pytest.fixture
def start(cluster: DirectoryCluster, tmp_path: Path, torch_python: Path) -> Callable[[str], tuple[int, str]]:
    """Start three ranks with a fault; return the exit code and stderr."""
    (tmp_path / "train.py").write_text(SCRIPT)

    def run(fault: str) -> tuple[int, str]:
        words = ("start", "-i", str(cluster.inventory), "--workdir", str(tmp_path), "--framework", "direct")
        flags = ("--python", str(torch_python), "--hang-after", "5", "--on-hang", "stop", "--interface", "lo")
        done = ended(cluster.begin(*words, *flags, "--", "train.py", fault), ENDS_S)
        return done.returncode, done.stderr

    return run


HANGS = {
    "lock": "ranks 0,2 wait in all_reduce #25 of the default group; rank 1 on n2 is in wait_for_cache (train.py:",
    "skip": "rank 1 on n2 skipped all_reduce #25 of the default group in reduce_loss (train.py:",
}


@pytest.mark.parametrize("fault", HANGS)
def test_the_rank_at_fault_is_named_with_its_line(
    start: Callable[[str], tuple[int, str]], cluster: DirectoryCluster, fault: str
) -> None:
    code, stderr = start(fault)
    assert HANGS[fault] in stderr
    assert code == ExitCode.JOB_FAILED
    [outcome] = cluster.outcomes().values()
    assert outcome["named"] == {"host": "n2", "rank": 1}


def test_evaluation_on_one_rank_is_no_hang(start: Callable[[str], tuple[int, str]], cluster: DirectoryCluster) -> None:
    code, _ = start("evaluation")
    assert code == ExitCode.DONE
    [path] = (cluster.state / "pylaunch" / "runs").glob("*/events.jsonl")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["text"] for event in events if event["text"].startswith("hang: ")] == []
