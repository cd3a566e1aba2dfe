"""Helpers of measurements on lab nodes: a lab of their own, `pylaunch` as a process, and rows of a table."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pylaunch.model.cluster import Cluster

PYLAUNCH = (sys.executable, "-m", "pylaunch")


def asked(description: str | None, runs: int) -> argparse.Namespace:
    """Parse the number of nodes and of runs of each measurement."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--runs", type=int, default=runs)
    return parser.parse_args()


@contextlib.contextmanager
def lab(nodes: int) -> Iterator[Path]:
    """Yield the inventory of a lab of its own; records of runs stay beside it."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as directory:
        os.environ["XDG_STATE_HOME"] = directory
        inventory = Path(directory) / "cluster.ini"
        name = f"bench{os.getpid()}"
        lab_tool("up", "-n", str(nodes), "--name", name, "--inventory-out", str(inventory))
        try:
            yield inventory
        finally:
            lab_tool("down", "--name", name)


def lab_tool(*arguments: str) -> None:
    """Run `python -m lab`."""
    subprocess.run((sys.executable, "-P", "-m", "lab", *arguments), stdout=subprocess.DEVNULL, check=True)


def pylaunch(*arguments: str) -> str:
    """Run pylaunch, which must succeed, and return its stdout."""
    return subprocess.run(
        [*PYLAUNCH, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def newest_events() -> list[dict[str, Any]]:
    """Return the events of the newest run of this lab, as recorded on the controller."""
    runs = Path(os.environ["XDG_STATE_HOME"]) / "pylaunch" / "runs"
    newest = max(runs.iterdir(), key=lambda path: (path / "plan.json").stat().st_mtime)
    return [json.loads(line) for line in (newest / "events.jsonl").read_text().splitlines()]


def need_pdsh() -> None:
    """Install pdsh if it is missing."""
    if shutil.which("pdsh") is None:
        subprocess.run(("apt-get", "install", "-y", "-q", "pdsh"), check=True, stdout=subprocess.DEVNULL)


def ssh_config(cluster: Cluster, path: Path, *, shared: bool) -> Path:
    """Write an SSH configuration with the hosts by name; `shared` connections stay open for a minute."""
    stanzas = [
        f"Host {host.name} {host.address}\n  HostName {host.address}\n  User {host.ssh.user or 'root'}\n"
        f"  IdentityFile {host.ssh.private_key}\n  UserKnownHostsFile {cluster.known_hosts}\n"
        for host in cluster.hosts
    ]
    for_all = f"  ControlMaster auto\n  ControlPath {path.parent}/%C\n  ControlPersist 60\n" if shared else ""
    path.write_text("".join(stanzas) + f"Host *\n{for_all}  LogLevel ERROR\n")
    return path


def head() -> None:
    """Print the first line of a table of seconds."""
    print(f"{'':38}{'median':>9}{'worst':>9}")


def row(name: str, seconds: Sequence[float]) -> None:
    """Print one measurement."""
    print(f"{name:38}{statistics.median(seconds):9.3f}{max(seconds):9.3f}")
