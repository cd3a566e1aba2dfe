"""Nodes of the demo: directories of this machine, each with the agent, so that nothing is installed."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.runs.prepare import archive

NAMES = ("n1", "n2")
SCRIPT = "train.py"
_OWN = ("XDG_STATE_HOME", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class DemoNodes:
    """The nodes, and the directory in which the job is."""

    cluster: Cluster
    directory: Path


@contextlib.contextmanager
def demo_nodes() -> Iterator[DemoNodes]:
    """Make the nodes and the job in a temporary directory, where records of runs go, too; remove all at the end."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-demo-") as made, _records_in(Path(made) / "records"):
        directory = Path(made)
        job = resources.files("pylaunch.features.demo.ranks") / SCRIPT
        (directory / SCRIPT).write_text(job.read_text(encoding="utf-8"), encoding="utf-8")
        yield DemoNodes(Cluster(tuple(_node(name, directory / name) for name in NAMES)), directory)


def _node(name: str, directory: Path) -> Host:
    """Return a node whose agent is in place, so that it needs no Ansible."""
    agent = archive.build()
    agents = directory / "agents"
    directory.mkdir(mode=0o700)
    agents.mkdir(mode=0o700)
    (agents / f"{agent.version}.pyz").write_bytes(agent.data)
    return Host(
        name, "127.0.0.1", Connection.LOCAL, interface="lo", python=sys.executable, agent_python=sys.executable,
        node_root=str(directory),
    )  # fmt: skip


@contextlib.contextmanager
def _records_in(directory: Path) -> Iterator[None]:
    """Keep records and caches of this process below `directory` during the block."""
    before = {name: os.environ.get(name) for name in _OWN}
    os.environ.update(dict.fromkeys(_OWN, str(directory)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
