"""Things that go wrong with a node. Each is felt at once, and each can be undone.

Where it can be, a fault comes from outside the node (its cable, the bridge, its cgroup), so that nothing the node does,
provisioning included, takes it away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from types import TracebackType
from typing import Protocol

from pylaunch.errors import LabError
from pylaunch.lab import boot, network
from pylaunch.lab.machine import CLOCK_ENVIRONMENT, Machine


class Fault(Protocol):
    """Something that goes wrong."""

    def inject(self, node: Machine) -> None:
        """Make it so. Raises LabError when that does not work."""

    def undo(self, node: Machine) -> None:
        """Make it good again."""


@dataclass(frozen=True)
class Injected:
    """A fault that is there now. As a context manager it is undone at the end."""

    node: Machine
    fault: Fault

    def undo(self) -> None:
        """Make it good again."""
        self.fault.undo(self.node)

    def __enter__(self) -> Injected:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def inject(node: Machine, fault: Fault) -> Injected:
    """Make `fault` happen to `node`."""
    fault.inject(node)
    return Injected(node, fault)


@dataclass(frozen=True)
class Cut:
    """The network cable is pulled. The node keeps its address, so all it notices is silence."""

    def inject(self, node: Machine) -> None:
        """Pull it."""
        network.set_link(network.cable(node.lab.name, node.name), up=False)

    def undo(self, node: Machine) -> None:
        """Plug it in."""
        network.set_link(network.cable(node.lab.name, node.name), up=True)


class Direction(Enum):
    """Seen from the node."""

    IN = "in"
    OUT = "out"
    BOTH = "both"


@dataclass(frozen=True)
class Filter:
    """TCP packets to a port are dropped in silence, as by a firewall between the node and all others."""

    port: int
    direction: Direction = Direction.BOTH

    def inject(self, node: Machine) -> None:
        """Drop them on the bridge."""
        table = network.nft_table(node.lab.name)
        cable = network.cable(node.lab.name, node.name)
        script = [f"add table bridge {table}"]
        for hook, match, chain in self._chains(node):
            script += [
                f"add chain bridge {table} {chain} {{ type filter hook {hook} priority 0; }}",
                f"add rule bridge {table} {chain} {match} {cable} tcp dport {self.port} drop",
            ]
        network.nft(script)

    def undo(self, node: Machine) -> None:
        """Let them pass."""
        table = network.nft_table(node.lab.name)
        script = [f"add table bridge {table}"]
        for hook, _, chain in self._chains(node):
            # Adding first makes removing what is not there no error.
            script += [
                f"add chain bridge {table} {chain} {{ type filter hook {hook} priority 0; }}",
                f"flush chain bridge {table} {chain}",
                f"delete chain bridge {table} {chain}",
            ]
        network.nft(script)

    def _chains(self, node: Machine) -> list[tuple[str, str, str]]:
        chains = []
        if self.direction is not Direction.OUT:
            chains.append(("postrouting", "oifname", f"{node.name}-{self.port}-in"))
        if self.direction is not Direction.IN:
            chains.append(("prerouting", "iifname", f"{node.name}-{self.port}-out"))
        return chains


@dataclass(frozen=True)
class Kill:
    """The node is gone at once, as at power loss. What it had on disk stays; undoing boots it again."""

    def inject(self, node: Machine) -> None:
        """Switch it off."""
        boot.end(node)
        # A node whose process 1 sees a shifted clock does not boot.
        (node.paths.upper / _CLOCK_PRELOAD.lstrip("/")).unlink(missing_ok=True)

    def undo(self, node: Machine) -> None:
        """Switch it on and wait until it is ready."""
        if not node.cgroup.is_populated:
            boot.Boot(node).wait()


@dataclass(frozen=True)
class Freeze:
    """No process of the node gets to run: connections stay open and nothing answers, as when a kernel hangs."""

    def inject(self, node: Machine) -> None:
        """Stop all of them."""
        if not node.cgroup.is_populated:
            raise LabError(f"node {node.name} is off: there is nothing to freeze")
        node.cgroup.freeze()

    def undo(self, node: Machine) -> None:
        """Let them run on."""
        node.cgroup.thaw()


_NEEDED = frozenset(
    map(
        PurePosixPath,
        ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/usr/bin"),
    )
)
"""What no node can do without."""


@dataclass(frozen=True)
class Fill:
    """A directory has no room left: a small, full file system lies over it and hides what was there."""

    path: str = "/var/tmp"

    def __post_init__(self) -> None:
        if not PurePosixPath(self.path).is_absolute() or ".." in self.path.split("/"):
            raise LabError(f"fill {self.path}: expected an absolute path on the node, such as /var/tmp")
        if PurePosixPath("/", self.path.lstrip("/")) in _NEEDED:
            raise LabError(f"fill {self.path}: the node itself runs from there; nothing could be undone any more")

    def inject(self, node: Machine) -> None:
        """Lay it over the directory."""
        node.run("mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "pylaunch-lab-fill", self.path)
        # dd ends with an error when there is no room left, which is the point.
        node.run("dd", "if=/dev/zero", f"of={self.path}/full", "bs=4k", check=False)

    def undo(self, node: Machine) -> None:
        """Take it away."""
        node.run("umount", "--lazy", self.path)


_HOLD_PORT = """\
import os, signal, socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
signal.pause()
"""


@dataclass(frozen=True)
class Occupy:
    """A process in the node listens on a TCP port and never answers."""

    port: int

    def inject(self, node: Machine) -> None:
        """Start it; returns when it listens."""
        started = node.run(
            "systemd-run", "--quiet", "--collect", f"--unit={self._unit}", "--property=Type=notify",
            "/usr/bin/python3", "-c", _HOLD_PORT, str(self.port), check=False,
        )  # fmt: skip
        if not started.ok:
            listeners = node.run("ss", "-ltnpH", f"sport = :{self.port}").stdout
            raise LabError(
                f"port {self.port} of {node.name} cannot be occupied",
                evidence=[*listeners.splitlines(), *started.stderr.splitlines()],
            )

    def undo(self, node: Machine) -> None:
        """End it."""
        node.run("systemctl", "stop", self._unit)

    @property
    def _unit(self) -> str:
        return f"pylaunch-lab-occupy-{self.port}.service"


_CLOCK_PRELOAD = "/etc/ld.so.preload"
_CLOCK_SERVICES = "/etc/systemd/system.conf.d/pylaunch-lab-clock.conf"


@dataclass(frozen=True)
class Clock:
    """Programs started in the node from now on see its time shifted.

    All nodes share one kernel clock, so this is a library (libfaketime) that /etc/ld.so.preload loads into every
    program. Programs that already run, and static ones, still see the true time. A node that is killed forgets it.
    """

    seconds: float

    def inject(self, node: Machine) -> None:
        """Shift it. sshd is started again, so that what comes over SSH sees it too."""
        files = node.run("dpkg", "-L", "libfaketime").stdout.splitlines()
        library = next(path for path in files if path.endswith("/libfaketime.so.1"))
        node.write(_CLOCK_SERVICES, f"[Manager]\nDefaultEnvironment={CLOCK_ENVIRONMENT}\n")
        node.write("/etc/environment", "".join(f"{each}\n" for each in [*self._foreign(node), CLOCK_ENVIRONMENT]))
        node.run("systemctl", "daemon-reload")
        node.write("/etc/faketimerc", f"{self.seconds:+}s\n")
        node.write(_CLOCK_PRELOAD, f"{library}\n")
        node.run("systemctl", "restart", "ssh.service")

    def undo(self, node: Machine) -> None:
        """Show the true time again, to programs started from then on."""
        node.run("rm", "-f", _CLOCK_PRELOAD, "/etc/faketimerc", _CLOCK_SERVICES)
        node.write("/etc/environment", "".join(f"{line}\n" for line in self._foreign(node)))
        node.run("systemctl", "daemon-reload")
        node.run("systemctl", "restart", "ssh.service")
        # The library leaves two of these for every program that it was loaded into.
        node.run("find", "/dev/shm", "-name", "*faketime_s*_*", "-delete")

    def _foreign(self, node: Machine) -> list[str]:
        """The lines of /etc/environment that are not ours."""
        there = node.run("cat", "/etc/environment", check=False).stdout.splitlines()
        return [line for line in there if line != CLOCK_ENVIRONMENT]
