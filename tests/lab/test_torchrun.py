"""PyTorch on nodes that pylaunch provisioned itself: the README's way from bare machines to a trained model."""

from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.controller import events, must_be_clean, of_runs, starting

REPOSITORY = Path(__file__).parents[2]
TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, how = dist.get_rank(), sys.argv[1]
for step in range(3):
    dist.all_reduce(torch.ones(1))
print("trained", rank, flush=True)
if rank == 1 and how == "kill":
    os.kill(os.getpid(), 9)
time.sleep(300 if how == "kill" else 0)
dist.all_reduce(torch.ones(1))
time.sleep(300)
"""


@pytest.fixture(scope="module")
def torch_lab(framework_lab: Lab) -> Lab:
    """A directory with a script whose rank 1 is killed on request."""
    (framework_lab.inventory.parent / "train.py").write_text(TRAIN)
    return framework_lab


def start(lab: Lab, *arguments: str) -> Completed:
    words = ("start", "-i", str(lab.inventory), "--framework", "torchrun", "--nproc-per-node", "2", *arguments)
    return lab.pylaunch(*words, cwd=lab.inventory.parent, timeout_s=600)


def test_a_model_is_trained_across_the_nodes_and_rank_0_keeps_it(torch_lab: Lab) -> None:
    checkpoint = torch_lab.inventory.parent / "digits.pt"
    script = str(REPOSITORY / "examples/train_ddp.py")
    run = start(torch_lab, "--", script, "--epochs", "8", "--checkpoint", str(checkpoint))
    assert run.returncode == ExitCode.DONE, run.stderr
    losses = [float(line.split("loss ")[1].split()[0]) for line in run.stdout.splitlines() if "loss " in line]
    assert losses[-1] < losses[0] / 3
    assert "trained on 4 ranks: held-out accuracy 9" in run.stdout
    assert checkpoint.stat().st_size > 100_000
    must_be_clean(torch_lab)


def test_a_run_that_is_restarted_goes_on_from_its_checkpoint(torch_lab: Lab, tmp_path: Path) -> None:
    """Each node keeps the checkpoint in a directory of its own. The agents start the ranks, as is the default."""
    script = str(REPOSITORY / "examples/train_ddp.py")
    words = ("--workdir", "/tmp", "--nproc-per-node", "1", "--max-restarts", "1", "--", script, "--epochs", "30")
    with starting(torch_lab, tmp_path, *words, "--checkpoint", "/var/tmp/digits.pt") as started:
        started.says("| epoch  3/30", deadline_s=180)
        ranks = [line.split()[1] for line in of_runs(torch_lab["n2"]) if "digits.pt" in line]
        torch_lab["n2"].run("kill", "-KILL", ranks[-1])
        assert started.ends(deadline_s=180) == ExitCode.DONE, started.stderr
    epochs = [int(line.split("epoch")[1].split("/")[0]) for line in started.stdout.splitlines() if "epoch " in line]
    assert "restart 1 of 1" in started.stderr
    assert epochs.count(1) == epochs.count(30) == 1
    must_be_clean(torch_lab)


def test_a_killed_rank_ends_nodes_whose_ranks_are_not_talking_to_it(torch_lab: Lab) -> None:
    """Under torchrun alone the other node runs to its natural end and exits with code 0."""
    run = start(torch_lab, "--node-timeout", "120", "--", "train.py", "kill")
    assert run.returncode == ExitCode.JOB_FAILED
    assert "rank 1 on n1 was killed by SIGKILL" in run.stderr
    happened = events(torch_lab)
    failed = min(event["time"] for event in happened if event["kind"] == "rank_ended")
    assert next(event["time"] for event in happened if event["kind"] == "ended") - failed < 30.0
    must_be_clean(torch_lab)
