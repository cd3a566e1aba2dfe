"""Measure `pylaunch push` beside scp, clush, rsync and aria2. Needs root, and packages for the nodes.

python benchmarks/push_compared.py [--nodes 1,3,8] [--size 200MB] [--others 1,3] [--chains 3]
python benchmarks/push_compared.py --directories [--nodes 1,3,8] [--size 200MB]

The controller sends 100 Mbit/s, and nodes receive 1 Gbit/s. Every host gets a new random file each time. `--others`:
numbers of nodes for which scp and clush are measured, too; `--chains`: rsync from each node to the next one, and aria2
(BitTorrent). With --directories, the hosts are directories of this machine, and
--limit-rate lets it and each of them send 100 Mbit/s.
"""

from __future__ import annotations

import argparse
import hashlib
import http.server
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import on_lab

from lab import network, spec
from lab.lab import Lab
from lab.node_faults.faults import SHAPED_BURST
from lab.nodes.node import LabNode
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.text.quantity import parse_size

UPLINK_MBPS = 100
LINK_MBPS = 1000
PORT = 6881


def main() -> None:
    """Measure each way for each number of nodes and print seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1,3,8")
    parser.add_argument("--size", default="200MB")
    parser.add_argument("--others", default="1,3")
    parser.add_argument("--chains", default="")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--directories", action="store_true")
    asked = parser.parse_args()
    numbers = [int(word) for word in asked.nodes.split(",")]
    others, chains = ([int(word) for word in words.split(",") if word] for words in (asked.others, asked.chains))
    if asked.directories:
        push_to_directories(numbers, parse_size(asked.size), asked.runs)
        return
    with on_lab.lab(max(numbers)) as inventory, tempfile.TemporaryDirectory() as directory:
        lab = shaped()
        cluster = load_cluster(inventory)
        config = on_lab.ssh_config(cluster, Path(directory, "ssh_config"), shared=False)
        source = Path(directory, "blob")
        if chains:
            prepare_chains(lab, max(chains))
        print(f"{'seconds':<30}{'nodes':>6}{'least':>8}{'median':>8}{'most':>8}", flush=True)
        for number in numbers:
            some = cluster.only(cluster.names[:number])
            ways: dict[str, Callable[[], None]] = {"pylaunch push": lambda some=some: push(inventory, some, source)}  # type: ignore[misc]
            if number in others:
                ways["scp to one after the other"] = lambda some=some: scp(config, some, source)  # type: ignore[misc]
                if shutil.which("clush"):
                    ways["clush --copy"] = lambda some=some: clush(config, some, source)  # type: ignore[misc]
            if number in chains:
                ways["rsync in a chain"] = lambda some=some: rsync(lab, config, some, source)  # type: ignore[misc]
                ways["aria2"] = lambda some=some: aria2(lab, config, some, source)  # type: ignore[misc]
            for name, way in ways.items():
                seconds = [timed(lab, number, way, source, parse_size(asked.size)) for _ in range(asked.runs)]
                low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
                print(f"{name:<30}{number:>6}{low:>8.1f}{middle:>8.1f}{high:>8.1f}", flush=True)


def shaped(uplink_mbps: float = UPLINK_MBPS) -> Lab:
    """Return the lab of this process, in which the controller sends `uplink_mbps` and each node receives LINK_MBPS."""
    lab = Lab.load(f"bench{os.getpid()}")
    network.shape(spec.short_name(lab.spec.name), uplink_mbps, SHAPED_BURST)
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
        node.run("sh", "-c", "rm -f /var/tmp/blob*")
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


def prepare_chains(lab: Lab, number: int) -> None:
    """Install rsync and aria2 on nodes, with a key for each other."""
    key = Path(load_cluster(lab.inventory).hosts[0].ssh.private_key or "")

    def prepare(node: LabNode) -> None:
        node.run("sh", "-c", "apt-get -q update && apt-get install -y -q --no-install-recommends rsync aria2")
        node.run("sh", "-c", "umask 077; cat > /root/.ssh/id_bench", stdin=key.read_bytes())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(prepare, lab.nodes[:number]))


def rsync(lab: Lab, config: Path, cluster: Cluster, source: Path) -> None:
    """Copy to the first node, from there to the second one, and so on. Lab nodes do not know each other's keys."""
    subprocess.run(("rsync", "-e", f"ssh -F {config}", str(source), f"{cluster.names[0]}:/var/tmp/"), check=True)
    for node, following in zip(lab.nodes, cluster.hosts[1:], strict=False):
        ssh = "ssh -i /root/.ssh/id_bench -o StrictHostKeyChecking=accept-new"
        node.run("rsync", "-e", ssh, "/var/tmp/blob", f"root@{following.address}:/var/tmp/")


def aria2(lab: Lab, config: Path, cluster: Cluster, source: Path) -> None:
    """Seed from here, and download on all nodes, which seed until the last one has the file."""
    nodes, gateway = lab.nodes[: len(cluster.names)], str(lab.machines.gateway)
    Tracker.peers = b"".join(
        socket.inet_aton(each) + PORT.to_bytes(2, "big") for each in (gateway, *(h.address for h in cluster.hosts))
    )
    torrent = source.with_suffix(".torrent")
    words = ("aria2c", "-q", "--enable-dht=false", "--seed-ratio=0.0", "--bt-max-peers=0", f"--listen-port={PORT}")
    there = " ".join((*words, "--on-bt-download-complete=/var/tmp/hook", "-d /var/tmp /var/tmp/blob.torrent"))
    hook = "rm -f /run/done; printf '#!/bin/sh\\ntouch /run/done' > /var/tmp/hook; chmod +x /var/tmp/hook"
    script = f"{hook}; {there} > /dev/null 2>&1 & echo $! > /run/aria2; until test -e /run/done; do sleep 0.1; done"
    with http.server.ThreadingHTTPServer((gateway, 0), Tracker) as tracker:
        threading.Thread(target=tracker.serve_forever, daemon=True).start()
        torrent.write_bytes(torrent_of(source, f"http://{gateway}:{tracker.server_port}/announce"))
        seed = subprocess.Popen((*words, "-V", "-d", str(source.parent), str(torrent)))
        try:
            for name in cluster.names:
                subprocess.run(("scp", "-q", "-F", str(config), str(torrent), f"{name}:/var/tmp/"), check=True)
            with ThreadPoolExecutor(len(nodes)) as pool:
                list(pool.map(lambda node: node.run("sh", "-c", script), nodes))
        finally:
            seed.terminate()
            seed.wait()
            tracker.shutdown()
            for node in nodes:
                node.run("sh", "-c", "kill -9 $(cat /run/aria2)", check=False)


class Tracker(http.server.BaseHTTPRequestHandler):
    """A tracker that names all peers to everyone."""

    peers = b""

    def do_GET(self) -> None:
        """Answer with the list of peers."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"d8:intervali60e5:peers%d:%be" % (len(self.peers), self.peers))

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def torrent_of(source: Path, tracker: str) -> bytes:
    """Return the torrent of one file."""
    content, piece = source.read_bytes(), 1 << 20
    hashes = b"".join(hashlib.sha1(content[at : at + piece]).digest() for at in range(0, len(content), piece))
    info = b"d6:lengthi%de4:name4:blob12:piece lengthi%de6:pieces%d:%be" % (len(content), piece, len(hashes), hashes)
    return b"d8:announce%d:%b4:info%be" % (len(tracker), tracker.encode(), info)


if __name__ == "__main__":
    main()
