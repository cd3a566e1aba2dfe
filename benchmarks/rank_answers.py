"""Measure the cost of the thread that answers for a rank: at the start of Python, and in a training loop.

    .venv/bin/python benchmarks/rank_answers.py [--runs 41] [--python /usr/bin/python3] [--torch-python PYTHON]

Prints processor time in milliseconds, with and without the thread in turns: of `python -c pass`, and with
--torch-python of a step of a small network that trains on the CPU with gloo, in one process whose thread ends and
starts again.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from pylaunch.agent.in_rank.sitecustomize import VARIABLE
from pylaunch.agent.run.worker_group import IN_RANK
from pylaunch.runs.prepare.launch import build

TRAINING = """
import os, statistics, sys, time
import torch, torch.distributed as dist
from pylaunch.agent.in_rank.questions import Questions
torch.set_num_threads(1)
directory = sys.argv[1]
thread = Questions(directory + "/0.sock", os.open(directory + "/0.stacks", os.O_RDWR | os.O_CREAT), None)
thread.start()
dist.init_process_group("gloo", init_method="file://" + directory + "/store", rank=0, world_size=1)
net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
inputs, labels = torch.randn(256, 64), torch.randint(0, 10, (256,))
medians = ([], [])
for block in range(160):
    thread._after_fork() if block % 2 else thread._before_fork()
    seconds = []
    for _ in range(40):
        began = time.process_time()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        seconds.append(time.process_time() - began)
    medians[block % 2].append(1000 * statistics.median(seconds))
costs = [with_it - without for without, with_it in zip(*medians)][10:]
print("training step    median  without %8.3f  cost %7.4f" % (statistics.median(medians[0]), statistics.median(costs)))
"""


def main() -> None:
    """Measure and print all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=41)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--torch-python")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as made:
        archive = Path(made) / "agent.pyz"
        archive.write_bytes(build().data)
        environments = {"without": {"PATH": os.environ["PATH"], "PYTHONPATH": str(archive)}}
        path = f"{archive}/{IN_RANK}:{archive}"
        environments["with"] = {**environments["without"], "PYTHONPATH": path, VARIABLE: f"{made}/0.sock"}
        show("start of Python", starts(asked.python, environments, asked.runs))
        if asked.torch_python is not None:
            subprocess.run([asked.torch_python, "-c", TRAINING, made], env=environments["without"], check=True)


def show(what: str, seconds: dict[str, list[float]]) -> None:
    """Print medians, and tenths: the value below which a tenth of all are, which other programs hardly disturb."""
    kinds: tuple[tuple[str, Callable[[list[float]], float]], ...] = (
        ("median", statistics.median),
        ("tenth", lambda found: statistics.quantiles(found, n=10)[0]),
    )
    for name, of in kinds:
        without, cost = (1000 * of(seconds[each]) for each in ("without", "with"))
        print(f"{what:16} {name:7} without {without:8.3f}  with {cost:8.3f}  cost {cost - without:7.3f}")


def starts(python: str, environments: dict[str, dict[str, str]], runs: int) -> dict[str, list[float]]:
    """Return the processor time of `python -c pass` in each environment."""
    seconds: dict[str, list[float]] = {name: [] for name in environments}
    for turn in range(runs + 1):
        for name, env in environments.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([python, "-c", "pass"], env=env, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if turn > 0:
                seconds[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return seconds


if __name__ == "__main__":
    main()
