"""Measure a restart after a killed rank, with and without --preload: seconds until all ranks are in their script again.

    .venv/bin/python benchmarks/restart_preload.py [--nodes 2] [--ranks 4] [--runs 5] [--environment DIR]

Needs root, for the lab, and PyTorch, which it installs into an environment that all nodes see unless one is given. The
last rank kills itself once the process group is ready. Starts with and without a preload take turns. Prints seconds:
from Enter to the last first line after init_process_group, and from the kill to the last one of the next attempt.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from on_lab import PYLAUNCH, head, row

from pylaunch.lab.lab import Lab

SCRIPT = """\
import os
import signal
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
print(f"FIRST {attempt} {time.time():.4f}", flush=True)
dist.barrier()
if attempt == "0":
    if dist.get_rank() == dist.get_world_size() - 1:
        print(f"KILLED 0 {time.time():.4f}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
dist.destroy_process_group()
"""
TIMEOUT_S = 300.0


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=4, help="ranks on each node")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--environment", type=Path, help="one that is there already, with PyTorch")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as directory:
        work = Path(directory)
        environment = asked.environment or made(work / "environment")
        code = work / "code"
        code.mkdir()
        (code / "train.py").write_text(SCRIPT)
        interpreter = (environment / "bin" / "python").resolve().parents[1]
        with Lab.up(f"bench{os.getpid()}", nodes=asked.nodes, share=[environment, interpreter, code]) as lab:
            os.environ.update(lab.environment, XDG_STATE_HOME=str(work / "state"))
            options = (
                "-i", str(lab.inventory), "--workdir", str(code), "--python", str(environment / "bin" / "python"),
                "--nproc-per-node", str(asked.ranks), "--max-restarts", "1", "--framework", "direct",
            )  # fmt: skip
            first: dict[str, list[float]] = {"none": [], "auto": []}
            again: dict[str, list[float]] = {"none": [], "auto": []}
            for turn in range(asked.runs + 1):
                for preload in first:
                    words = [*PYLAUNCH, "start", *options, "--preload", preload, "--", "train.py"]
                    started, restarted = measured(words, asked.nodes * asked.ranks)
                    if turn > 0:  # The first round warms connections and file caches.
                        first[preload].append(started)
                        again[preload].append(restarted)
    head()
    for preload, seconds in first.items():
        row(f"--preload {preload}: first start", seconds)
        row(f"--preload {preload}: restart", again[preload])


def made(environment: Path) -> Path:
    """Create an environment with PyTorch."""
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    subprocess.run([environment / "bin" / "pip", "install", "-q", "torch==2.13.0", "numpy"], check=True)
    return environment


def measured(words: list[str], ranks: int) -> tuple[float, float]:
    """Return the seconds from Enter to the last first line, and from the kill to the last one of the next attempt."""
    enter = time.time()
    ended = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    found: dict[str, list[float]] = {"FIRST 0": [], "FIRST 1": [], "KILLED 0": []}
    for line in ended.stdout.splitlines():
        kind, _, at = line.partition(" | ")[2].rpartition(" ")
        if kind in found:
            found[kind].append(float(at))
    if [len(each) for each in found.values()] != [ranks, ranks, 1]:
        raise SystemExit(f"not every rank came up twice:\n{ended.stdout}{ended.stderr}")
    return max(found["FIRST 0"]) - enter, max(found["FIRST 1"]) - found["KILLED 0"][0]


if __name__ == "__main__":
    main()
