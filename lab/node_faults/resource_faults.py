"""Faults of a node's storage and memory."""

import contextlib
from pathlib import Path, PurePosixPath

from lab.nodes.cgroup import END_TIMEOUT_S
from lab.nodes.machine import Machine
from lab.nodes.waiting import reached
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import LabError

_SERVES_NOTHING = """\
import ctypes, os, signal, socket, sys
where, node = sys.argv[1], "/dev/pylaunch-lab-fuse"
if not os.path.exists(node):
    os.mknod(node, 0o20600, os.makedev(10, 229))
server = os.open(node, os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"pylaunch-lab-stall", where.encode(), b"fuse", 0, options):
    raise OSError(ctypes.get_errno(), "mount")
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
signal.pause()
"""
"""A FUSE server that reads no request."""


@dataclass(frozen=True)
class Stall:
    """File system whose server never answers, as NFS without its server: whoever uses it waits in the kernel."""

    path: str

    def __post_init__(self) -> None:
        if not PurePosixPath(self.path).is_absolute() or ".." in self.path.split("/") or self.path.count("/") < 2:
            raise LabError(f"stall {self.path}: expected an absolute path below a top directory, such as /mnt/data")

    def inject(self, node: Machine) -> None:
        """Mount it."""
        node.run("mkdir", "-p", self.path)
        node.run(
            "systemd-run", "--quiet", "--collect", f"--unit={self._unit}", "--property=Type=notify",
            "/usr/bin/python3", "-c", _SERVES_NOTHING, self.path,
        )  # fmt: skip

    def undo(self, node: Machine) -> None:
        """End the server, so that the kernel gives up and whoever waits continues with an error, then unmount it."""
        node.run("systemctl", "kill", "--signal=KILL", self._unit)
        node.run("umount", "--lazy", self.path)
        node.run("rm", "-f", "/dev/pylaunch-lab-fuse")

    @property
    def _unit(self) -> str:
        return f"pylaunch-lab-stall-{PurePosixPath(self.path).name}.service"


@dataclass(frozen=True)
class LittleMemory:
    """Too little memory: the processes of the node may take `size` more bytes, then the kernel kills one of them."""

    size: int

    def inject(self, node: Machine) -> None:
        """Limit the memory of all processes of the node, present and future ones."""
        made = _memory_cgroup(node)
        made.mkdir(exist_ok=True)
        (made / "memory.limit_in_bytes").write_text(str(self.size))
        with contextlib.suppress(OSError):
            (made / "memory.memsw.limit_in_bytes").write_text(str(self.size))
        _move(node, made)

    def undo(self, node: Machine) -> None:
        """Remove the limit."""
        made = _memory_cgroup(node)
        if made.is_dir() and not reached(lambda: _is_removed(node, made), END_TIMEOUT_S):
            raise LabError(f"cgroup cannot be removed: {made}")


def _is_removed(node: Machine, cgroup: Path) -> bool:
    """Move the processes of the node out of `cgroup` and remove it. False if one was forked there meanwhile."""
    _move(node, cgroup.parent)
    try:
        cgroup.rmdir()
    except OSError:
        return False
    return True


def _move(node: Machine, cgroup: Path) -> None:
    for process in node.cgroup.processes():
        with contextlib.suppress(ProcessLookupError):
            (cgroup / "cgroup.procs").write_text(str(process))


def _memory_cgroup(node: Machine) -> Path:
    """Return the directory of the node in the hierarchy of version 1.

    Raises LabError without one: in version 2 the memory of a node is a matter of the cgroups above it, whose
    controllers the lab does not change.
    """
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return Path("/sys/fs/cgroup/memory", path.lstrip("/"), node.container)
    raise LabError(f"the memory of node {node.name} cannot be limited: no memory controller of cgroup version 1 here")
