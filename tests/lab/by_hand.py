"""Jobs that people start by hand over SSH, without pylaunch, and leave behind."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from lab.lab import Lab
from lab.nodes.node import LabNode
from pylaunch.inventory import load_cluster
from pylaunch.transport import process
from pylaunch.transport.connections import connector_of
from tests.waiting import wait_until

LAUNCHER = """\
{before}
for rank in 0 1; do RANK=$rank WORLD_SIZE=2 MASTER_ADDR=n1 sleep 600 & echo $! >> {pids}; done
echo $$ > {pids}.launcher; exec sleep 600
"""
"""Processes that look like torchrun in /proc: a parent without the variables of a rank, children with them."""

LISTENER = """\
import os, signal, socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
with open(sys.argv[2], "w") as pids:
    print(os.getpid(), file=pids)
signal.pause()
"""


def over_ssh(lab: Lab, name: str, *argv: str) -> None:
    """Run `argv` on a node in a login of its own, which is over when this returns."""
    cluster = load_cluster(lab.inventory)
    process.run(connector_of(cluster[name], cluster.known_hosts).argv(argv)).checked()


def pids(node: LabNode, file: str) -> list[int]:
    """The process ids in `file`, once it is there."""
    script = f"for i in $(seq 3000); do [ -s {file} ] && exec cat {file}; sleep 0.02; done; exit 1"
    return [int(word) for word in node.run("sh", "-c", script).stdout.split()]


def alive(node: LabNode, *wanted: int) -> list[int]:
    """Those of `wanted` that still run. One that has ended stays in /proc until its parent notices."""
    states = {pid: node.run("cat", f"/proc/{pid}/stat", check=False).stdout.rpartition(") ")[2][:1] for pid in wanted}
    return [pid for pid, state in states.items() if state not in ("", "Z", "X")]


@contextlib.contextmanager
def launcher(lab: Lab, name: str, file: str, *, before: str = "") -> Iterator[tuple[int, list[int]]]:
    """A launcher with two ranks, whose terminal is gone: its process id and theirs. `before` is done first."""
    script = LAUNCHER.format(pids=file, before=before)
    over_ssh(lab, name, "sh", "-c", 'setsid sh -c "$1" > /dev/null 2>&1 < /dev/null &', "sh", script)
    (above,), ranks = pids(lab[name], f"{file}.launcher"), pids(lab[name], file)
    # A process has the environment of its program from its exec on.
    names = ("cat", *(f"/proc/{pid}/comm" for pid in (above, *ranks)))
    wait_until(lambda: lab[name].run(*names).stdout == "sleep\n" * 3, "the programs of the launcher and its ranks")
    try:
        yield above, ranks
    finally:
        lab[name].run("kill", "-KILL", *map(str, (above, *ranks)), check=False)
        lab[name].run("rm", "-f", file, f"{file}.launcher")


@contextlib.contextmanager
def listener(lab: Lab, name: str, port: int, file: str) -> Iterator[int]:
    """A process that listens on `port` and that nobody runs any more: its process id."""
    words = 'setsid python3 -c "$1" "$2" "$3" > /dev/null 2>&1 < /dev/null &'
    over_ssh(lab, name, "sh", "-c", words, "sh", LISTENER, str(port), file)
    (pid,) = pids(lab[name], file)
    try:
        yield pid
    finally:
        lab[name].run("kill", "-KILL", str(pid), check=False)
        lab[name].run("rm", "-f", file)


def with_devices(lab: Lab, directory: Path, devices: str) -> Path:
    """An inventory of the lab that declares `devices` on every node."""
    inventory = directory / "devices.ini"
    inventory.write_text(lab.inventory.read_text() + f"\n[cluster:vars]\ndevices={devices}\n")
    known_hosts = directory / ".pylaunch" / "known_hosts"
    known_hosts.parent.mkdir(exist_ok=True)
    known_hosts.write_bytes((lab.inventory.parent / ".pylaunch" / "known_hosts").read_bytes())
    return inventory
