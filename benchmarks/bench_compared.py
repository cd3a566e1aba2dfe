"""`pylaunch bench` beside the same torch loop under plain torchrun, and the duration of its stages, on lab nodes.

    .venv/bin/python benchmarks/bench_compared.py [--nodes 2] [--many 16] [--runs 5]

Needs root, for the lab. Provisions PyTorch into an environment that all nodes see. Both measure the same sizes in
turns, on the same nodes, with the same number of iterations, one rank on each node and no OMP_NUM_THREADS.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from on_lab import PYLAUNCH, ssh_config

from lab.lab import Lab
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster

HERE = Path(__file__).parent / "plain_loop"
EXAMPLES = Path(__file__).parents[1] / "examples"
PORT = 29400
TIMEOUT_S = 300.0
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
SIZES = tuple(4096 * 4**power for power in range(8))
INTERFACE = ("env", "GLOO_SOCKET_IFNAME=host0")
"""Setting without which gloo does not find the network between lab nodes."""

ENVIRONMENT = """\
here ansible_connection=local ansible_host=127.0.0.1 interface=lo pylaunch_node_root={directory}/node

[all:vars]
pylaunch_unprivileged=true
pylaunch_env_root={directory}/env
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--many", type=int, default=16, help="nodes for the duration of the stages; 0 omits it")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20, help="most timed iterations of one size")
    parser.add_argument("--python", type=Path, help="an interpreter with PyTorch that is there already")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as directory:
        python = asked.python or provisioned(Path(directory))
        share = [python.parents[2], HERE]
        with Lab.up(f"bench{os.getpid()}", nodes=asked.nodes, share=share) as lab:
            os.environ.update(lab.environment)
            os.environ["XDG_STATE_HOME"] = directory
            compare(lab, Path(directory), python, asked.runs, asked.iterations)
            durations(lab, python, ())
        if asked.many:
            with Lab.up(f"bench{os.getpid()}", nodes=asked.many, share=share) as lab:
                os.environ.update(lab.environment)
                durations(lab, python, ("--stage", "connect", "--stage", "pairs"))


def provisioned(directory: Path) -> Path:
    """Return an interpreter with the examples' requirements, in `directory`."""
    inventory = directory / "here.ini"
    inventory.write_text(ENVIRONMENT.format(directory=directory))
    version = subprocess.run(("/usr/bin/python3", "-c", VERSION), check=True, stdout=subprocess.PIPE, text=True).stdout
    for words in (("env", "lock", "--python", version.strip(), str(EXAMPLES / "requirements.txt")), ("provision",)):
        subprocess.run([*PYLAUNCH, *words, "-i", str(inventory)], check=True, stdout=subprocess.DEVNULL)
    return directory / "env" / "current" / "bin" / "python"


def compare(lab: Lab, work: Path, python: Path, runs: int, iterations: int) -> None:
    """Print the times of both, in turns."""
    cluster = load_cluster(lab.inventory)
    config = ssh_config(cluster, work / "ssh_config", shared=True)
    ours: dict[int, list[float]] = {size: [] for size in SIZES}
    plain: dict[int, list[float]] = {size: [] for size in SIZES}
    latencies = []
    words = ("--stage", "sweep", "--stage", "latency", "--operation", "all-reduce", "--max-size", str(SIZES[-1]),
             "--iterations", str(iterations))  # fmt: skip
    for _ in range(runs):
        found = bench(lab, python, words)
        for each in found["collectives"]:
            ours[each["bytes"]].append(each["seconds"])
        latencies += [each for each in found["latencies"] if each["of"] == "round trip"]
        for size, seconds in torchrun(cluster, config, python, iterations).items():
            plain[size].append(seconds)
    print(f"all-reduce on {len(cluster.hosts)} nodes, medians of {runs} runs in turns (least and most)")
    print(
        f"{'bytes':>10}{'bench, us':>28}{'torchrun, us':>28}{'ratio of medians':>18}{'95 % interval':>18}{'least':>10}"
    )
    for size in SIZES:
        ratio, least = median(ours[size]) / median(plain[size]), min(ours[size]) / min(plain[size])
        low, high = interval(ours[size], plain[size])
        spread = f"{low:.3f} to {high:.3f}"
        print(f"{size:>10}{shown(ours[size]):>28}{shown(plain[size]):>28}{ratio:>18.3f}{spread:>18}{least:>10.3f}")
    trips = [each["median_us"] for each in latencies]
    print(f"half of a round trip: medians of {runs} runs {min(trips):.1f} to {max(trips):.1f} us", flush=True)


def interval(ours: list[float], plain: list[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the ratio of medians."""
    chance = random.Random(1)
    ratios = sorted(
        median(chance.choices(ours, k=len(ours))) / median(chance.choices(plain, k=len(plain))) for _ in range(2000)
    )
    return ratios[50], ratios[-51]


def shown(seconds: list[float]) -> str:
    return f"{median(seconds) * 1e6:.1f} ({min(seconds) * 1e6:.1f}, {max(seconds) * 1e6:.1f})"


def bench(lab: Lab, python: Path, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the document of `pylaunch bench`."""
    called = (*PYLAUNCH, "bench", "-i", str(lab.inventory), "--python", str(python), "--json", *words)
    ended = subprocess.run(called, capture_output=True, text=True, timeout=TIMEOUT_S)
    if ended.returncode not in (0, 1):
        raise SystemExit(ended.stderr)
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def torchrun(cluster: Cluster, config: Path, python: Path, iterations: int) -> dict[int, float]:
    """Return size → seconds of the plain loop, started with torchrun over SSH."""
    nodes = cluster.hosts
    started = [
        subprocess.Popen(
            ("ssh", "-F", str(config), host.name, *INTERFACE, str(python), "-m", "torch.distributed.run",
             f"--nnodes={len(nodes)}", "--nproc-per-node=1", f"--node-rank={number}",
             f"--master-addr={nodes[0].address}", f"--master-port={PORT}", str(HERE / "all_reduce.py"),
             *map(str, (iterations, *SIZES))),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for number, host in enumerate(nodes)
    ]  # fmt: skip
    lines = "".join(each.communicate(timeout=TIMEOUT_S)[0] for each in started).splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    if len(found) != len(SIZES):
        raise SystemExit(f"torchrun: {len(found)} results of {len(SIZES)}")
    return {each["bytes"]: each["seconds"] for each in found}


def durations(lab: Lab, python: Path, words: tuple[str, ...]) -> None:
    """Print how long each stage took."""
    found = bench(lab, python, words)
    print(f"{len(found['hosts'])} nodes, bench {' '.join(words) or 'with defaults'}")
    for stage in found["stages"]:
        print(f"  {stage['stage']:<12}{stage['seconds']:7.2f} s  {stage['text']}")
    print(f"  {'all':<12}{sum(each['seconds'] for each in found['stages']):7.2f} s", flush=True)


if __name__ == "__main__":
    main()
