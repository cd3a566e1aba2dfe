"""Faults of a node. Each takes effect at once and can be undone.

Where possible, a fault acts from outside the node (its cable, the bridge, its cgroup), so that nothing in the node,
provisioning included, can remove it.
"""

from enum import Enum
from pathlib import PurePosixPath
from types import TracebackType
from typing import Protocol

from lab import network
from lab.nodes import boot
from lab.nodes.machine import CLOCK_ENVIRONMENT, Machine
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import LabError


class Fault(Protocol):
    """A fault of a node."""

    def inject(self, node: Machine) -> None:
        """Cause the fault. Raises LabError when that fails."""

    def undo(self, node: Machine) -> None:
        """Undo the fault."""


@dataclass(frozen=True)
class Injected:
    """An active fault. As a context manager, it is undone at the end."""

    node: Machine
    fault: Fault

    def undo(self) -> None:
        """Undo the fault."""
        self.fault.undo(self.node)

    def __enter__(self) -> "Injected":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def inject(node: Machine, fault: Fault) -> Injected:
    """Inject `fault` into `node`."""
    fault.inject(node)
    return Injected(node, fault)


@dataclass(frozen=True)
class Cut:
    """Pulled network cable. The node keeps its address, so it sees only silence."""

    def inject(self, node: Machine) -> None:
        """Set the link down."""
        network.set_link(network.cable(node.lab.name, node.name), up=False)

    def undo(self, node: Machine) -> None:
        """Set the link up."""
        network.set_link(network.cable(node.lab.name, node.name), up=True)


class Direction(Enum):
    """Direction of packets, seen from the node."""

    IN = "in"
    OUT = "out"
    BOTH = "both"


class _Dropped:
    """Frames that the bridge drops."""

    def _chains(self, node: Machine) -> list[tuple[str, str, list[str]]]:
        """Return chains with their hook and what they drop."""
        raise NotImplementedError

    def inject(self, node: Machine) -> None:
        """Drop the frames on the bridge."""
        table, script = network.nft_table(node.lab.name), self._script(node)
        for chain, _, matches in self._chains(node):
            script += [f"add rule bridge {table} {chain} {match} drop" for match in matches]
        network.nft(script)

    def undo(self, node: Machine) -> None:
        """Let the frames pass."""
        table, script = network.nft_table(node.lab.name), self._script(node)
        for chain, *_ in self._chains(node):
            # Deleting a chain that does not exist is an error: it was added first.
            script += [f"flush chain bridge {table} {chain}", f"delete chain bridge {table} {chain}"]
        network.nft(script)

    def _script(self, node: Machine) -> list[str]:
        table = network.nft_table(node.lab.name)
        chains = [f"{chain} {{ type filter hook {hook} priority 0; }}" for chain, hook, _ in self._chains(node)]
        return [f"add table bridge {table}", *(f"add chain bridge {table} {chain}" for chain in chains)]


@dataclass(frozen=True)
class Filter(_Dropped):
    """Firewall between the node and all others that drops TCP packets to a port."""

    port: int
    direction: Direction = Direction.BOTH

    def _chains(self, node: Machine) -> list[tuple[str, str, list[str]]]:
        end = f"{network.cable(node.lab.name, node.name)} tcp dport {self.port}"
        to = (f"{node.name}-{self.port}-in", "postrouting", [f"oifname {end}"])
        from_ = (f"{node.name}-{self.port}-out", "prerouting", [f"iifname {end}"])
        return {Direction.IN: [to], Direction.OUT: [from_], Direction.BOTH: [to, from_]}[self.direction]


@dataclass(frozen=True)
class Isolate(_Dropped):
    """Broken switch: the node and the other nodes no longer reach each other. The controller still reaches all."""

    def _chains(self, node: Machine) -> list[tuple[str, str, list[str]]]:
        cable = network.cable(node.lab.name, node.name)
        return [(f"{node.name}-isolated", "forward", [f"iifname {cable}", f"oifname {cable}"])]


SHAPED_BURST = 256 << 10
"""Bytes that pass at once: four of the largest packets that a virtual cable carries."""


@dataclass(frozen=True)
class SlowCable:
    """Slow network cable: the node receives at most `mbps` Mb/s, Ethernet headers included; it sends at full speed."""

    mbps: float

    def __post_init__(self) -> None:
        if not 1 <= self.mbps <= 100_000:
            raise LabError(f"slow cable of {self.mbps:g} Mb/s: expected 1 … 100000")

    def inject(self, node: Machine) -> None:
        """Shape the traffic to the node with a token bucket. Raises LabError where the kernel has none (sch_tbf)."""
        network.shape(network.cable(node.lab.name, node.name), self.mbps, SHAPED_BURST)

    def undo(self, node: Machine) -> None:
        """Let the cable carry everything."""
        network.unshape(network.cable(node.lab.name, node.name))


@dataclass(frozen=True)
class Kill:
    """Power loss: the node ends at once and keeps its disk. Undoing boots it again."""

    def inject(self, node: Machine) -> None:
        """Switch the node off."""
        boot.end(node)
        # A node does not boot if its process 1 sees a shifted clock.
        (node.paths.upper / _CLOCK_PRELOAD.lstrip("/")).unlink(missing_ok=True)

    def undo(self, node: Machine) -> None:
        """Switch the node on and wait until it is ready."""
        if not node.cgroup.is_populated:
            boot.Boot(node).wait()


@dataclass(frozen=True)
class Freeze:
    """Hanging kernel: no process of the node runs; connections stay open and nothing answers."""

    def inject(self, node: Machine) -> None:
        """Stop all processes."""
        if not node.cgroup.is_populated:
            raise LabError(f"node {node.name} is off: its processes cannot be frozen")
        node.cgroup.freeze()

    def undo(self, node: Machine) -> None:
        """Continue all processes."""
        node.cgroup.thaw()


_NEEDED = frozenset(
    map(
        PurePosixPath,
        ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/usr/bin"),
    )
)
"""Directories that every node needs."""


@dataclass(frozen=True)
class Fill:
    """Full disk: a small, full file system is mounted over a directory."""

    path: str = "/var/tmp"

    def __post_init__(self) -> None:
        if not PurePosixPath(self.path).is_absolute() or ".." in self.path.split("/"):
            raise LabError(f"fill {self.path}: expected an absolute path on the node, such as /var/tmp")
        if PurePosixPath("/", self.path.lstrip("/")) in _NEEDED:
            raise LabError(f"fill {self.path}: the node itself runs from there, so the fault could not be undone")

    def inject(self, node: Machine) -> None:
        """Mount the full file system."""
        node.run("mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "pylaunch-lab-fill", self.path)
        # dd fills the file system and ends with an error.
        node.run("dd", "if=/dev/zero", f"of={self.path}/full", "bs=4k", check=False)

    def undo(self, node: Machine) -> None:
        """Unmount it."""
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
    """Port in use: a process in the node listens on a TCP port and never answers."""

    port: int

    def inject(self, node: Machine) -> None:
        """Start the process and wait until it listens."""
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
        """End the process."""
        node.run("systemctl", "stop", self._unit)

    @property
    def _unit(self) -> str:
        return f"pylaunch-lab-occupy-{self.port}.service"


_CLOCK_PRELOAD = "/etc/ld.so.preload"
_CLOCK_SERVICES = "/etc/systemd/system.conf.d/pylaunch-lab-clock.conf"


@dataclass(frozen=True)
class Clock:
    """Shifted clock, for programs that start in the node from now on.

    All nodes share one kernel clock, so this is a library (libfaketime) that /etc/ld.so.preload loads into every
    program. Running programs and static ones still see the true time. Killing the node removes the fault.
    """

    seconds: float

    def inject(self, node: Machine) -> None:
        """Shift the clock, and restart sshd so that logins see it too."""
        files = node.run("dpkg", "-L", "libfaketime").stdout.splitlines()
        library = next(path for path in files if path.endswith("/libfaketime.so.1"))
        node.write(_CLOCK_SERVICES, f"[Manager]\nDefaultEnvironment={CLOCK_ENVIRONMENT}\n")
        node.write("/etc/environment", "".join(f"{each}\n" for each in [*self._foreign(node), CLOCK_ENVIRONMENT]))
        node.run("systemctl", "daemon-reload")
        node.write("/etc/faketimerc", f"{self.seconds:+}s\n")
        node.write(_CLOCK_PRELOAD, f"{library}\n")
        node.run("systemctl", "restart", "ssh.service")

    def undo(self, node: Machine) -> None:
        """Show the true time to programs that start from now on."""
        node.run("rm", "-f", _CLOCK_PRELOAD, "/etc/faketimerc", _CLOCK_SERVICES)
        node.write("/etc/environment", "".join(f"{line}\n" for line in self._foreign(node)))
        node.run("systemctl", "daemon-reload")
        node.run("systemctl", "restart", "ssh.service")
        # The library leaves two of these for every program that loaded it.
        node.run("find", "/dev/shm", "-name", "*faketime_s*_*", "-delete")

    def _foreign(self, node: Machine) -> list[str]:
        """Return the lines of /etc/environment that this fault did not write."""
        there = node.run("cat", "/etc/environment", check=False).stdout.splitlines()
        return [line for line in there if line != CLOCK_ENVIRONMENT]
