"""Leases of other users, who may call themselves anything: the kernel names the holder."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.shared import leases
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.base.layout import NodeRoot, default_root
from tests.agent.controller import Node, task

NOBODY = 65534
PORT = 100_000 + 1000 * os.getpid()
"""The first of some that no program and no other test wants the lease of."""

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")

FORGER = r"""
import os, select, socket, sys
open("/proc/self/comm", "w").write(sys.argv[4])
os.setuid(int(sys.argv[1]))
mode, names = sys.argv[2], sys.argv[3].split(",")
held, kept = [], []
for name in names:
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].bind("\0" + name)
    if mode != "bound":
        held[-1].listen(0)
    if mode == "full":
        kept.append(socket.socket(socket.AF_UNIX))
        kept[-1].connect("\0" + name)
print("held", flush=True)
sys.stdin.read()
"""
MODES = ("silent", "bound", "full")


class Forger:
    """Another user who holds leases."""

    def __init__(self, mode: str, *names: str, uid: int = NOBODY, called: str = "python") -> None:
        words = [sys.executable, "-I", "-S", "-c", FORGER, str(uid), mode, ",".join(each[1:] for each in names), called]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"held\n"

    def __enter__(self) -> "Forger":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def device(node: Node, index: int) -> str:
    return leases.device_name(index, str(node.root), default_root())


@as_root
@pytest.mark.parametrize("mode", MODES)
def test_another_user_who_holds_a_lease_is_named_by_the_kernel(mode: str) -> None:
    name = leases.port_name(PORT)
    with Forger(mode, name) as forger:
        found = leases.take(name)
    assert isinstance(found, leases.Holder)
    assert (found.run, found.is_ours) == ("", False)
    of_the_kernel = f"pid {forger.process.pid} of {pwd.getpwuid(NOBODY).pw_name}"
    assert str(found) == (of_the_kernel if mode == "silent" else "a process that does not answer")


@as_root
@pytest.mark.parametrize("called", ["run \x1b[2J", "run a\nhint: rm", "run ", "run /", "run é"])
def test_a_name_that_is_no_run_id_is_not_shown(called: str) -> None:
    with Forger("silent", leases.port_name(PORT), called=called) as forger:
        assert str(leases.holder(leases.port_name(PORT))).startswith(f"pid {forger.process.pid} of ")


@as_root
@pytest.mark.parametrize("mode", ["full", "silent", "bound"])
def test_a_run_beside_a_lease_of_another_user_goes_well_and_is_known_to_be_clean(
    mode: str, node: Node, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    controller = node.started(task(tmp_path, "read line < go", devices=[905]))
    with Forger(mode, device(node, 906), called="run r1") as forger:
        refused = node.refusal(task(tmp_path, "true", run="r2", devices=[905, 906]))
        (tmp_path / "go").write_text("on\n")
        assert controller.until(protocol.Finished).leftovers == []
    first, second = (reason.message for reason in refused)
    assert first.startswith(f"device 905 is leased to run r1 of {leases.user_name(os.getuid())} since ")
    user = pwd.getpwuid(NOBODY).pw_name
    named = f"run r1 of {user} since" if mode == "silent" else "a process that does not answer"
    assert second.startswith(f"device 906 is leased to {named}"), forger
    assert refused[1].hint == ""


@as_root
def test_a_run_id_that_another_user_forges_leaves_nothing_behind_of_a_finished_run(node: Node, tmp_path: Path) -> None:
    holdings = Holdings(task(tmp_path, "true", devices=[907]), NodeRoot(str(node.root)))
    holdings.begin(EventLoop())
    with Forger("silent", device(node, 907), called="run r1"):
        assert list(holdings.end()) == []
    lease = leases.bind(device(node, 907))
    assert lease is not None
    with lease:
        assert ["device 907 is still leased to pid" in left for left in holdings.end()] == [True]
