"""Faults between hosts, each with the finding that must name it."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from lab import network
from lab.lab import Lab
from lab.node_faults.faults import Direction
from lab.nodes.node import LabNode
from tests.lab.fault_case import Case
from tests.lab.faults_core import relogin

PORT = 29500
EPHEMERAL = "32768-60999"
INTERFACE = "host0"


@contextlib.contextmanager
def changed(node: LabNode, path: str, change: Callable[[str], str]) -> Iterator[None]:
    """A file of the node with another content; "" was no file."""
    there = node.run("test", "-e", path, check=False).ok
    before = node.read(path) if there else ""
    node.write(path, change(before))
    try:
        yield
    finally:
        if there:
            node.write(path, before)
        else:
            node.run("rm", "-f", path)


@contextlib.contextmanager
def done(node: LabNode, do: tuple[str, ...], undo: tuple[str, ...]) -> Iterator[None]:
    """A command in the node, and the one that takes it back."""
    node.run(*do)
    try:
        yield
    finally:
        node.run(*undo)


@contextlib.contextmanager
def again(lab: Lab, fault: AbstractContextManager[object]) -> Iterator[None]:
    """A fault that connections which are open already do not feel."""
    try:
        with fault:
            relogin(lab)
            yield
    finally:
        relogin(lab)


@contextlib.contextmanager
def silently(fault: AbstractContextManager[object]) -> Iterator[None]:
    """The lab's own faults, whose handles nobody wants."""
    with fault:
        yield


@contextlib.contextmanager
def ephemeral_filtered(lab: Lab, node: LabNode) -> Iterator[None]:
    """No connection to an ephemeral port of the node gets through."""
    table, cable = network.nft_table(lab.spec.name), network.cable(lab.spec.name, node.name)
    chain = f"bridge {table} {node.name}-ephemeral"
    network.nft(
        [
            f"add table bridge {table}",
            f"add chain {chain} {{ type filter hook postrouting priority 0; }}",
            # Answers to the node's own connections go there too; only new ones are dropped.
            f"add rule {chain} oifname {cable} tcp dport {EPHEMERAL} tcp flags & (syn | ack) == syn drop",
        ]
    )
    try:
        yield
    finally:
        network.nft([f"delete chain {chain}"])


@contextlib.contextmanager
def one_way_filtered(lab: Lab, source: LabNode, target: LabNode) -> Iterator[None]:
    """No connection from `source` to an ephemeral port of `target` gets through; all others do, the way back too."""
    table, chain = network.nft_table(lab.spec.name), f"{source.name}-to-{target.name}"
    comes, goes = (network.cable(lab.spec.name, node.name) for node in (source, target))
    new = f"tcp dport {EPHEMERAL} tcp flags & (syn | ack) == syn"
    network.nft(
        [
            f"add table bridge {table}",
            f"add chain bridge {table} {chain} {{ type filter hook forward priority 0; }}",
            f"add rule bridge {table} {chain} iifname {comes} oifname {goes} {new} drop",
        ]
    )
    try:
        yield
    finally:
        network.nft([f"delete chain bridge {table} {chain}"])


_LISTEN = """\
import os, signal, socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
signal.pause()
"""
STALE = "dead-run"


@contextlib.contextmanager
def stale_listener(node: LabNode) -> Iterator[None]:
    """A process that carries the mark of a run and has the rendezvous port, and no agent looks after it."""
    unit = "pylaunch-lab-stale.service"
    node.run(
        "systemd-run", "--quiet", "--collect", f"--unit={unit}", "--property=Type=notify",
        f"--setenv=PYLAUNCH_RUN={STALE}", "/usr/bin/python3", "-c", _LISTEN, str(PORT),
    )  # fmt: skip
    try:
        yield
    finally:
        node.run("systemctl", "stop", unit)


SSHD_AGAIN = "systemctl reset-failed ssh.service; systemctl restart ssh.service"
"""systemd refuses the sixth start of a unit within 10 s, and faults follow each other faster: reset its count."""


def _other_host_key(lab: Lab) -> AbstractContextManager[None]:
    make = "cp -p /etc/ssh/ssh_host_ed25519_key /root/key; rm /etc/ssh/ssh_host_ed25519_key; "
    make += f"ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key; {SSHD_AGAIN}"
    back = f"mv /root/key /etc/ssh/ssh_host_ed25519_key; {SSHD_AGAIN}; "
    back += "ssh-keygen -y -f /etc/ssh/ssh_host_ed25519_key > /etc/ssh/ssh_host_ed25519_key.pub"
    return again(lab, done(lab["n2"], ("sh", "-c", make), ("sh", "-c", back)))


def _no_sshd(lab: Lab) -> AbstractContextManager[None]:
    return again(lab, done(lab["n2"], ("systemctl", "stop", "ssh.socket", "ssh.service"), ("sh", "-c", SSHD_AGAIN)))


def _no_shell(lab: Lab) -> AbstractContextManager[None]:
    shell = ("usermod", "--shell")
    return again(lab, done(lab["n2"], (*shell, "/usr/sbin/nologin", "root"), (*shell, "/bin/bash", "root")))


def _forced_command(lab: Lab) -> AbstractContextManager[None]:
    drop_in = "/etc/ssh/sshd_config.d/forced.conf"
    make = f"echo 'ForceCommand echo backups only' > {drop_in}; {SSHD_AGAIN}"
    return again(lab, done(lab["n2"], ("sh", "-c", make), ("sh", "-c", f"rm {drop_in}; {SSHD_AGAIN}")))


FIXED = ("--port", str(PORT))

FAULTS: tuple[Case, ...] = (
    Case("link cut", lambda lab: again(lab, lab["n3"].cut()), "reach.host", ("n3",)),
    Case("no SSH server", _no_sshd, "reach.host", ("n2",)),
    Case(
        "key not accepted",
        lambda lab: again(lab, changed(lab["n2"], "/root/.ssh/authorized_keys", lambda text: "")),
        "reach.host", ("n2",),
    ),
    Case("account without a login shell", _no_shell, "reach.host", ("n2",)),
    Case("ForceCommand runs another command", _forced_command, "reach.host", ("n2",)),
    Case("host key changed", _other_host_key, "reach.host", ("n2",)),
    Case(
        "rc file prints",
        lambda lab: changed(lab["n2"], "/root/.bashrc", lambda text: f"echo welcome\n{text}"),
        "reach.shell", ("n2",),
    ),
    Case("rendezvous port filtered on its way in", lambda lab: silently(lab["n1"].filter(PORT, Direction.IN)),
         "network.ports", ("n1",)),
    Case("rendezvous port filtered on its way out", lambda lab: silently(lab["n3"].filter(PORT, Direction.OUT)),
         "network.ports", ("n3",)),
    Case("ephemeral ports filtered", lambda lab: ephemeral_filtered(lab, lab["n2"]), "network.ports", ("n2",)),
    Case("ephemeral ports filtered from one host to another", lambda lab: one_way_filtered(lab, lab["n1"], lab["n2"]),
         "network.ports", ("n1",)),
    Case("rendezvous port taken by a stranger", lambda lab: silently(lab["n1"].occupy(PORT)),
         "network.port_free", ("n1",), FIXED),
    Case("rendezvous port left by a dead run", lambda lab: stale_listener(lab["n1"]), "network.port_free", ("n1",),
         FIXED),
    Case(
        "smaller MTU on one host",
        lambda lab: done(
            lab["n2"], ("ip", "link", "set", INTERFACE, "mtu", "1400"), ("ip", "link", "set", INTERFACE, "mtu", "1500")
        ),
        "network.link", ("n2",),
    ),
    Case("clock ahead by 90 s", lambda lab: silently(lab["n2"].shift_clock(90)), "time.offset", ("n2",)),
)  # fmt: skip
