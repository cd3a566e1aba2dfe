"""Measure `pylaunch push` beside scp and clush: the controller sends 100 Mbit/s, nodes receive 1 Gbit/s. Needs root.

python benchmarks/push_compared.py [--nodes 1,3,8] [--size 200MB] [--others 1,3]
python benchmarks/push_compared.py --directories [--nodes 1,3,8] [--size 200MB]

With --directories, the hosts are directories of this machine, and --limit-rate lets it and each of them send
100 Mbit/s. Every host gets a new random file each time. `--others`: numbers of nodes for which scp and clush are
measured, too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import on_lab

from pylaunch.features.lab.cluster import network, spec
from pylaunch.features.lab.cluster.lab import Lab
from pylaunch.features.lab.cluster.node_faults.faults import SHAPED_BURST
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.text.size import parse_size

UPLINK_MBPS = 100
LINK_MBPS = 1000


def main() -> None:
    """Measure each way for each number of nodes and print seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1,3,8")
    parser.add_argument("--size", default="200MB")
    parser.add_argument("--others", default="1,3")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--directories", action="store_true")
    asked = parser.parse_args()
    numbers = [int(word) for word in asked.nodes.split(",")]
    others = [int(word) for word in asked.others.split(",") if word]
    if asked.directories:
        push_to_directories(numbers, parse_size(asked.size), asked.runs)
        return
    with on_lab.lab(max(numbers)) as inventory, tempfile.TemporaryDirectory() as directory:
        lab = shaped()
        cluster = load_cluster(inventory)
        config = on_lab.ssh_config(cluster, Path(directory, "ssh_config"), shared=False)
        source = Path(directory, "blob")
        print(f"{'seconds':<30}{'nodes':>6}{'least':>8}{'most':>8}", flush=True)
        for number in numbers:
            some = cluster.only(cluster.names[:number])
            ways: dict[str, Callable[[], None]] = {"pylaunch push": lambda some=some: push(inventory, some, source)}  # type: ignore[misc]
            if number in others:
                ways["scp to one after the other"] = lambda some=some: scp(config, some, source)  # type: ignore[misc]
                if shutil.which("clush"):
                    ways["clush --copy"] = lambda some=some: clush(config, some, source)  # type: ignore[misc]
            for name, way in ways.items():
                seconds = [timed(lab, number, way, source, parse_size(asked.size)) for _ in range(asked.runs)]
                print(f"{name:<30}{number:>6}{min(seconds):>8.1f}{max(seconds):>8.1f}", flush=True)


def shaped() -> Lab:
    """Return the lab of this process, in which the controller sends UPLINK_MBPS and each node receives LINK_MBPS."""
    lab = Lab.load(f"bench{os.getpid()}")
    network.shape(spec.identity(lab.spec.name), UPLINK_MBPS, SHAPED_BURST)
    for node in lab:
        network.shape(network.cable(lab.spec.name, node.name), LINK_MBPS, SHAPED_BURST)
    return lab


def push_to_directories(numbers: list[int], size: int, runs: int) -> None:
    """Push to hosts that are directories of this machine and print seconds."""
    with tempfile.TemporaryDirectory() as directory:
        lines, source = [], Path(directory, "blob")
        for number in range(1, max(numbers) + 1):
            host = Path(directory, f"n{number}")
            host.mkdir()
            python = host / "python3"
            python.write_text(f'#!/bin/sh\ncd {host} && exec /usr/bin/python3 "$@"\n')
            python.chmod(0o755)
            lines.append(f"n{number} pylaunch_node_root={host}/root pylaunch_agent_python={python}\n")
        inventory = Path(directory, "cluster.ini")
        common = "ansible_connection=local\nansible_host=127.0.0.1\n"
        inventory.write_text("[cluster]\n" + "".join(lines) + "[cluster:vars]\n" + common)
        rate = ("--limit-rate", str(UPLINK_MBPS * 1_000_000 // 8))
        for number in numbers:
            some = ",".join(f"n{each}" for each in range(1, number + 1))
            seconds = []
            for _ in range(runs):
                source.write_bytes(os.urandom(size))
                words = (*on_lab.PYLAUNCH, "push", "-i", str(inventory), "--limit", some, *rate, str(source), "blob")
                begun = time.perf_counter()
                ended = subprocess.run(words, check=True, capture_output=True, text=True)
                seconds.append(time.perf_counter() - begun)
                print("  " + ended.stderr.strip().splitlines()[-1], flush=True)
            print(f"{'pylaunch push':<30}{number:>6}{min(seconds):>8.1f}{max(seconds):>8.1f}", flush=True)


def timed(lab: Lab, number: int, way: Callable[[], None], source: Path, size: int) -> float:
    """Return the seconds that `way` takes for new content."""
    source.write_bytes(os.urandom(size))
    begun = time.perf_counter()
    way()
    seconds = time.perf_counter() - begun
    for node in lab.nodes[:number]:
        node.run("rm", "/var/tmp/blob")
    return seconds


def push(inventory: Path, cluster: Cluster, source: Path) -> None:
    """Push with pylaunch."""
    words = ("push", "-i", str(inventory), "--limit", ",".join(cluster.names), str(source), "/var/tmp/")
    ended = subprocess.run((*on_lab.PYLAUNCH, *words), check=True, capture_output=True, text=True)
    print("  " + ended.stderr.strip().splitlines()[-1], flush=True)


def scp(config: Path, cluster: Cluster, source: Path) -> None:
    """Copy with scp to one node after the other."""
    for name in cluster.names:
        subprocess.run(("scp", "-q", "-F", str(config), str(source), f"{name}:/var/tmp/"), check=True)


def clush(config: Path, cluster: Cluster, source: Path) -> None:
    """Copy with ClusterShell."""
    nodes = ",".join(cluster.names)
    words = ("clush", "-w", nodes, "-o", f"-F {config}", "--copy", str(source), "--dest", "/var/tmp/")
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
