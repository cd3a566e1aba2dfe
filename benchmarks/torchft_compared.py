"""Kill a rank of a replica group of examples/torchft, and a rank of the same training without torchft.

    .venv/bin/python benchmarks/torchft_compared.py --python VENV/bin/python [--runs 3]

VENV has torch and torchft. Four ranks on this machine, as two nodes, train with gloo; a step takes at least 0.1 s. With
torchft they are two groups, and one group starts again. Without it they are one world that writes a checkpoint every
50 steps, and all ranks start again from it. Prints medians and the worst of all runs, in steps and seconds.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from on_lab import PYLAUNCH, head, row

from pylaunch.agent.shared import processes

ROOT = Path(__file__).parents[1]
STEPS = 500
CHECKPOINT_EVERY = 50
KILLED_AFTER = 130
"""30 steps after a checkpoint: a few more than the 25 that a kill at a random time costs on average."""

PLAIN = f"""
import os, pathlib, time
import torch
from pylaunch import runtime

runtime.init()
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1))
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
checkpoint, step = pathlib.Path("checkpoint.pt"), 0
if checkpoint.exists():
    state = torch.load(checkpoint)
    model.load_state_dict(state["model"])
    sgd.load_state_dict(state["sgd"])
    step = state["step"]
while step < {STEPS}:
    sgd.zero_grad()
    inputs = torch.randn(32, 64)
    (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
    time.sleep(0.1)
    sgd.step()
    step += 1
    if runtime.is_main():
        print("step", step, "done", flush=True)
        if step % {CHECKPOINT_EVERY} == 0:
            torch.save({{"model": model.state_dict(), "sgd": sgd.state_dict(), "step": step}}, "saved.pt")
            os.rename("saved.pt", checkpoint)
"""
INVENTORY = """\
n1 pylaunch_node_root={0}/n1
n2 pylaunch_node_root={0}/n2

[all:vars]
ansible_connection=local
ansible_host=127.0.0.1
interface=lo
"""
STEP = re.compile(r"step (\d+) (done|lost)(?: with (\d) groups)?")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_STATE_HOME"] = directory
        here = Path(directory)
        (here / "cluster.ini").write_text(INVENTORY.format(here))
        (here / "plain.py").write_text(PLAIN)
        for _ in range(arguments.runs):
            for name, found in {**groups(here, arguments.python), **plain(here, arguments.python)}.items():
                rows.setdefault(name, []).append(found)
    head()
    for name, values in rows.items():
        row(name, values)


def groups(here: Path, python: str) -> dict[str, float]:
    """Return the measurements of the example, whose group 1 loses a rank."""
    example = ROOT / "examples/torchft"
    sets = ("--set", f'group.program="train.py --steps {STEPS}"', "--set", "lighthouse.hosts=n1")
    job = ("--workdir", str(example), "--python", python, str(example / "job.toml"), *sets)
    killed, steps = traced(here, job, "group.0 ", {"PYLAUNCH_REPLICA": "1", "RANK": "1"})
    after = [each for each in steps if each.at > killed]
    done = [each for each in after if each.end == "done"]
    alone = next(each.at for each in done if each.groups == "1")
    return {
        "torchft: steps lost by the others": len(after) - len(done),
        "torchft: until the others train on": alone - killed,
        "torchft: until the group is back": next(e.at for e in done if e.at > alone and e.groups == "2") - killed,
    }


def plain(here: Path, python: str) -> dict[str, float]:
    """Return the measurements of one world, which is restarted."""
    (here / "checkpoint.pt").unlink(missing_ok=True)
    options = ("--framework", "direct", "--nproc-per-node", "2", "--max-restarts", "1")
    job = ("--workdir", str(here), "--python", python, *options, "--", "plain.py")
    killed, steps = traced(here, job, "", {"RANK": "3"})
    reached = max(each.number for each in steps if each.at < killed)
    first = next(each for each in steps if each.at > killed and each.number <= reached)
    again = next(each.at for each in steps if each.at > first.at and each.number > reached)
    return {
        "restart of all: steps lost": reached - first.number + 1,
        "restart of all: until all train on": first.at - killed,
        "restart of all: until the same step": again - killed,
    }


class Step(NamedTuple):
    """A step as rank 0 printed it."""

    at: float
    number: int
    end: str
    groups: str | None


def traced(here: Path, job: tuple[str, ...], lines_of: str, victim: dict[str, str]) -> tuple[float, list[Step]]:
    """Run a job and kill `victim`. Return the time of that, and the steps of the lines that begin with `lines_of`."""
    env = ("--env", f"PYTHONPATH={ROOT}", "--env", f"OF_BENCHMARK={os.getpid()}")
    words = ("start", "-i", str(here / "cluster.ini"), *env, *job)
    killed, steps = float("inf"), []
    with subprocess.Popen([*PYLAUNCH, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            found = STEP.search(line)
            if found is None or not line.startswith(lines_of):
                continue
            steps.append(Step(time.monotonic(), int(found[1]), found[2], found[3]))
            if killed == float("inf") and steps[-1].number >= KILLED_AFTER:
                killed = time.monotonic()
                kill({**victim, "OF_BENCHMARK": str(os.getpid())})
    if running.returncode != 0:
        raise SystemExit(f"pylaunch {' '.join(words)}: exit code {running.returncode}")
    return killed, steps


def kill(marks: dict[str, str]) -> None:
    """Kill the process that has these variables: a rank, which has no children."""
    for process in processes.mine():
        if marks.items() <= processes.environment(process.pid).items():
            os.kill(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
