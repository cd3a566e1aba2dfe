"""A node as a container of this machine, entered through its namespaces, so its network is not needed."""

import contextlib
from pathlib import Path

from lab.nodes.cgroup import Cgroup
from lab.spec import LabSpec, Machines, NodePaths, machine_name
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import LabError
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.process import Completed

CLOCK_ENVIRONMENT = "FAKETIME_DONT_FAKE_MONOTONIC=1"
"""A shifted clock must not affect the monotonic clock: sshd and systemctl would fail."""

_ENVIRONMENT = (
    "env", "-i", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    CLOCK_ENVIRONMENT,
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """The container of a node: its paths, and commands in it."""

    name: str
    lab: LabSpec
    machines: Machines

    @property
    def address(self) -> str:
        """Address on the lab's bridge."""
        return str(self.machines.address(self.lab.nodes.index(self.name)))

    @property
    def paths(self) -> NodePaths:
        """The node's files on the controller."""
        return self.lab.paths.node(self.name)

    @property
    def container(self) -> str:
        """Name of the container."""
        return machine_name(self.lab.name, self.name)

    @property
    def cgroup(self) -> Cgroup:
        """The cgroup of all its processes."""
        return Cgroup(Path(self.machines.cgroup) / self.name)

    @property
    def leader(self) -> int:
        """Process id, on the controller, of the node's process 1. Raises LabError when the node is not up."""
        depth = len(_namespaced_pids("self")) + 1
        for pid in self.cgroup.processes():
            pids = _namespaced_pids(str(pid))
            if len(pids) == depth and pids[-1] == "1":
                return pid
        raise LabError(
            f"node {self.name} of lab {self.lab.name} is not up",
            hint=f"python -m lab fault kill {self.name} --undo --name {self.lab.name}",
        )

    def command(self, *argv: str) -> Argv:
        """Return the command line on the controller that runs `argv` in the node as root."""
        return ("nsenter", "--target", str(self.leader), "--all", "--wd", "--", *_ENVIRONMENT, *argv)

    def run(self, *argv: str, check: bool = True, stdin: bytes = b"") -> Completed:
        """Run `argv` in the node as root, without SSH. Raises LabError when it fails, unless `check` is False."""
        ended = process.run(self.command(*argv), stdin=stdin)
        return ended.checked(error=LabError) if check else ended

    def write(self, path: str, text: str, *, mode: str = "0644") -> None:
        """Write a file in the node, and create its directories."""
        self.run("install", "-D", "-m", mode, "/dev/stdin", path, stdin=text.encode())

    def read(self, path: str) -> str:
        """Read a file in the node."""
        return self.run("cat", "--", path).stdout


def _namespaced_pids(pid: str) -> list[str]:
    """Return the ids of a process in its own and all outer pid namespaces, outermost first; empty if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[1:]
    return []
