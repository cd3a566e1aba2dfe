"""What measurements on lab nodes have in common: a lab of their own, `pylaunch` as typed, and rows of a table."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pylaunch.model.cluster import Cluster

PYLAUNCH = (sys.executable, "-m", "pylaunch")


def asked(description: str | None, runs: int) -> argparse.Namespace:
    """How many nodes, and how many runs of each measurement."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--runs", type=int, default=runs)
    return parser.parse_args()


@contextlib.contextmanager
def lab(nodes: int) -> Iterator[Path]:
    """The inventory of a lab that nobody else has; records of runs stay beside it."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as directory:
        os.environ["XDG_STATE_HOME"] = directory
        inventory = Path(directory) / "cluster.ini"
        name = f"bench{os.getpid()}"
        pylaunch("lab", "up", "-n", str(nodes), "--name", name, "--inventory-out", str(inventory))
        try:
            yield inventory
        finally:
            pylaunch("lab", "down", "--name", name)


def pylaunch(*arguments: str) -> str:
    """What it writes to stdout; it must succeed."""
    return subprocess.run(
        [*PYLAUNCH, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def need_pdsh() -> None:
    """Install pdsh where it is not."""
    if shutil.which("pdsh") is None:
        subprocess.run(("apt-get", "install", "-y", "-q", "pdsh"), check=True, stdout=subprocess.DEVNULL)


def ssh_config(cluster: Cluster, path: Path, *, shared: bool) -> Path:
    """The hosts by name, as a careful user would write them down; `shared` connections stay open for a minute."""
    stanzas = [
        f"Host {host.name} {host.address}\n  HostName {host.address}\n  User {host.ssh.user or 'root'}\n"
        f"  IdentityFile {host.ssh.private_key}\n  UserKnownHostsFile {cluster.known_hosts}\n"
        for host in cluster.hosts
    ]
    for_all = f"  ControlMaster auto\n  ControlPath {path.parent}/%C\n  ControlPersist 60\n" if shared else ""
    path.write_text("".join(stanzas) + f"Host *\n{for_all}  LogLevel ERROR\n")
    return path


def head() -> None:
    """The first line of a table of seconds."""
    print(f"{'':38}{'median':>9}{'worst':>9}")


def row(name: str, seconds: Sequence[float]) -> None:
    """One measurement."""
    print(f"{name:38}{statistics.median(seconds):9.3f}{max(seconds):9.3f}")
