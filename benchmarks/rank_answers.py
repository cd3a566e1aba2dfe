"""Measure the cost of the thread that answers for a rank: at the start of Python, and in a training loop.

    .venv/bin/python benchmarks/rank_answers.py [--runs 41] [--python /usr/bin/python3] [--torch-python PYTHON]

Prints medians of processor time in milliseconds, with and without the thread in turns: of `python -c pass`, and with
--torch-python of a step of a small network that trains on the CPU with gloo. While it trains, each second brings a
request for its stacks and collectives, more than a watch for hangs sends.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from pylaunch.agent.in_rank.sitecustomize import VARIABLE
from pylaunch.agent.run.worker_group import IN_RANK
from pylaunch.launch.start.archive import build

TRAINING = """
import json, os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=0, world_size=1)
net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
inputs, labels = torch.randn(256, 64), torch.randint(0, 10, (256,))
seconds = []
for _ in range(int(sys.argv[1])):
    began = time.process_time()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(inputs), labels).backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    seconds.append(time.process_time() - began)
print(json.dumps(seconds[20:]))
"""


def main() -> None:
    """Measure and print all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=41)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--torch-python")
    parser.add_argument("--steps", type=int, default=1500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as made:
        archive = Path(made) / "agent.pyz"
        archive.write_bytes(build().data)
        environments = {"without": {"PATH": os.environ["PATH"], "PYTHONPATH": str(archive)}}
        path = f"{archive}/{IN_RANK}:{archive}"
        environments["with"] = {**environments["without"], "PYTHONPATH": path, VARIABLE: f"{made}/0.sock"}
        show("start of Python", starts(asked.python, environments, asked.runs))
        if asked.torch_python is not None:
            words = [asked.torch_python, "-c", TRAINING, str(asked.steps)]
            show("training step", steps(words, environments, Path(made)))


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


def steps(words: list[str], environments: dict[str, dict[str, str]], directory: Path) -> dict[str, list[float]]:
    """Return the processor time of each step in each environment, which take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in environments}
    for turn in range(5):
        for name, env in environments.items():
            is_over = threading.Event()
            watch = threading.Thread(target=ask_each_second, args=(env.get(VARIABLE), is_over))
            watch.start()
            store = directory / f"store-{turn}-{name}"
            done = subprocess.run([*words, str(store)], env=env, check=True, stdout=subprocess.PIPE)
            is_over.set()
            watch.join()
            seconds[name] += json.loads(done.stdout)
    return seconds


def ask_each_second(path: str | None, is_over: threading.Event) -> None:
    """Ask the rank that listens at `path` until it is over."""
    while path is not None and not is_over.wait(1.0):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                connection.sendall(b"collectives\n")
                while connection.recv(1 << 16):
                    pass
        except OSError:
            continue


if __name__ == "__main__":
    main()
