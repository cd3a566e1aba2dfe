"""Create the files of a node, start it, and wait until it is ready."""

import os
import socket
import sys
import time
import uuid
from pathlib import Path

from lab import network, slurm
from lab.images import recipe
from lab.nodes.machine import Machine
from lab.nodes.waiting import reached
from lab.spec import short_name
from pylaunch.errors import LabError
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process

READY_TIMEOUT_S = 180.0
_NSPAWN_LEFTOVERS = (Path("/run/systemd/nspawn/propagate"), Path("/run/systemd/nspawn/unix-export"))

_NSPAWN_SETTINGS = {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_LOCK": "0"}
"""Nodes have cgroup version 2 only, whatever this machine mounts. nspawn takes no locks: pylaunch holds its own, and
nspawn's lock files remain when it is killed."""

HOSTS = """\
127.0.0.1\tlocalhost
127.0.1.1\t{name}

::1\tlocalhost ip6-localhost ip6-loopback
ff02::1\tip6-allnodes
ff02::2\tip6-allrouters
"""
"""The file of Debian's installer, with the host's own name on a loopback address."""

LINK = """\
[Match]
Name=host0

[Network]
Address={address}/{prefix}
Gateway={gateway}
ConfigureWithoutCarrier=yes
IgnoreCarrierLoss=yes
"""
"""The address outlives a pulled cable, so the node sees silence and no error that it could react to."""


def personalise(node: Machine, resolver: str) -> None:
    """Write the node's names, address and keys into its layer over the image."""
    paths = node.paths
    for directory in (paths.upper, paths.work, paths.root):
        directory.mkdir(parents=True)
    process.run(
        ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.name, "-f", str(paths.host_key))
    ).checked(error=LabError)  # fmt: skip
    image = Path(node.machines.image)
    link = LINK.format(
        address=node.address, prefix=node.machines.network.prefixlen, gateway=node.machines.gateway
    )  # fmt: skip
    public = paths.host_key.with_suffix(".pub").read_text()
    opener = node.lab.paths.key.with_suffix(".pub").read_text()
    layer = _Layer(image, paths.upper)
    layer.write("etc/hostname", f"{node.name}\n")
    layer.write("etc/hosts", HOSTS.format(name=node.name))
    layer.write("etc/machine-id", f"{uuid.uuid4().hex}\n")
    layer.write("etc/resolv.conf", resolver)
    layer.write("etc/systemd/network/10-lab.network", link)
    layer.write("etc/ssh/ssh_host_ed25519_key", paths.host_key.read_text(), mode=0o600)
    layer.write("etc/ssh/ssh_host_ed25519_key.pub", public)
    layer.write("root/.ssh/authorized_keys", opener, mode=0o600)
    layer.write(f"home/{recipe.USER}/.ssh/authorized_keys", opener, mode=0o600)
    if node.lab.addition == slurm.ADDITION:
        for path, text in slurm.files(node).items():
            layer.write(path, text, mode=0o400 if path == slurm.KEY else 0o644)


class _Layer:
    """Files over an image. Directories keep their owner and mode of the image; new ones are private."""

    def __init__(self, image: Path, upper: Path) -> None:
        self.image = image
        self.upper = upper

    def write(self, relative: str, text: str, *, mode: int = 0o644) -> None:
        """Write one file, owned by the owner of its directory."""
        path = self.upper / relative
        self._directory(path.parent)
        path.write_text(text)
        path.chmod(mode)
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    def _directory(self, path: Path) -> None:
        if path.exists():
            return
        self._directory(path.parent)
        path.mkdir()
        like = self.image / path.relative_to(self.upper)
        status = like.stat() if like.exists() else path.parent.stat()
        os.chown(path, status.st_uid, status.st_gid)
        path.chmod(status.st_mode & 0o7777 if like.exists() else 0o700)


def nspawn(node: Machine) -> Argv:
    """Return the command line that starts the node's container."""
    shares = [f"--bind={_escaped(path)}" for path in node.lab.share]
    return (
        "systemd-nspawn", "--boot", "--quiet", "--register=no", "--keep-unit", "--notify-ready=yes", "--console=pipe",
        f"--directory={node.paths.root}", f"--machine={node.container}", f"--hostname={node.name}",
        f"--network-bridge={short_name(node.lab.name)}",
        "--resolv-conf=off", "--timezone=off", "--link-journal=no", *shares,
    )  # fmt: skip


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:")


class Boot:
    """A node that is booting. `wait` returns when it is ready."""

    def __init__(self, node: Machine) -> None:
        self.node = node
        paths = node.paths
        paths.notify.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(paths.notify))
        self._socket.settimeout(0.2)
        node.cgroup.directory.mkdir(parents=True, exist_ok=True)
        self._console_start = paths.console.stat().st_size if paths.console.exists() else 0
        process.start_daemon(
            (
                "unshare", "--mount", "--propagation", "slave", "--",
                sys.executable, "-P", "-m", "lab.nodes.supervise",
                str(node.cgroup.directory), node.machines.image, str(paths.directory), *nspawn(node),
            ),
            log=paths.console,
            env={**_NSPAWN_SETTINGS, "NOTIFY_SOCKET": str(paths.notify)},
        )  # fmt: skip

    def wait(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until systemd in the node has started everything and sshd answers. Raises LabError with its console."""
        deadline = time.monotonic() + timeout_s
        try:
            while b"READY=1" not in self._message():
                if time.monotonic() > deadline:
                    raise self._failure(f"did not become ready within {timeout_s:g} s")
                if self._has_ended():
                    raise self._failure("ended while it was starting")
        finally:
            self._socket.close()
            self.node.paths.notify.unlink(missing_ok=True)
        if not reached(self._sshd_answers, max(1.0, deadline - time.monotonic())):
            raise self._failure(f"is up, but its sshd at {self.node.address} does not answer")

    def _message(self) -> bytes:
        try:
            return self._socket.recv(4096)
        except TimeoutError:
            return b""

    def _has_ended(self) -> bool:
        console = self.node.paths.console
        # A start that fails before it has joined its cgroup shows only in its output.
        return not self.node.cgroup.is_populated and console.stat().st_size > self._console_start

    def _sshd_answers(self) -> bool:
        try:
            with socket.create_connection((self.node.address, 22), timeout=1.0) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _failure(self, what: str) -> LabError:
        console = self.node.paths.console.read_text("utf-8", "replace").splitlines()[-15:]
        return LabError(f"node {self.node.name} {what}", evidence=console)


def end(node: Machine) -> None:
    """End the node at once, as at power loss. Only its files remain."""
    node.cgroup.end()
    link = network.cable(node.lab.name, node.name)
    # The kernel removes the cable some time after the last process; the next boot needs its name.
    if not reached(lambda: all(each.name != link for each in network.links()), timeout_s=1.0):
        process.run(("ip", "link", "delete", link))
    for directory in _NSPAWN_LEFTOVERS:
        leftover = directory / node.container
        if leftover.is_dir():
            leftover.rmdir()
