"""Leases whose holder answers anything or nothing: the kernel names the holder, in bounded time."""

import json
import os
import pwd
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch import protocol
from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.shared import leases
from pylaunch.agent.shared.sockets import ports, unix_sockets
from pylaunch.base.layout import NodeRoot, default_root
from tests.agent.controller import Node, gone, task

NOBODY = 65534
PORT = 100_000 + 1000 * os.getpid()
"""The first of some that no program and no other test wants the lease of."""

BOUND_S = 60.0
"""More than all silent holders together cost on a busy machine; less than one deadline for each of 200."""

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")

FORGER = r"""
import os, select, socket, sys, json
os.setuid(int(sys.argv[1]))
mode, names = sys.argv[2], sys.argv[3].split(",")
own = {"run": "r1", "since": 1.0, "devices": [0]}
answer = {
    "silent": None,
    "deep": b"[" * 4000,
    "late": json.dumps({**own, "since": 1e300}).encode(),
    "escape": json.dumps({**own, "run": "r1\x1b[2J\nhint: rm -rf /"}).encode(),
    "forged": json.dumps(own).encode(),
    "null": b"null",
    "devices": json.dumps({**own, "devices": [[{}]]}).encode(),
    "flood": b"x" * 100000,
    "gone": b"",
}.get(mode)
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
while mode not in ("bound", "full"):
    for each in select.select(held, [], [])[0]:
        asking = each.accept()[0]
        kept.append(asking)
        if answer is not None:
            asking.setblocking(False)
            try:
                asking.send(answer)
            except OSError:
                pass
        if mode not in ("silent", "flood"):
            kept.pop().close()
sys.stdin.read()
"""
MODES = ("silent", "deep", "late", "escape", "null", "devices", "flood", "gone", "bound", "full")


class Forger:
    """Another user who holds leases."""

    def __init__(self, mode: str, *names: str, uid: int = NOBODY) -> None:
        words = [sys.executable, "-I", "-S", "-c", FORGER, str(uid), mode, ",".join(name[1:] for name in names)]
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
def test_another_user_who_holds_a_lease_is_named_whatever_is_answered(mode: str) -> None:
    name = leases.port_name(PORT)
    with Forger(mode, name) as forger:
        begun = time.monotonic()
        found = leases.take(name)
        assert time.monotonic() - begun < BOUND_S
    assert isinstance(found, leases.Holder)
    user = pwd.getpwuid(NOBODY).pw_name
    assert (found.run, found.user, found.is_ours) == ("", user, False)
    if mode in ("bound", "full"):
        assert str(found) == f"a process of {user} that does not answer"
    else:
        assert str(found) == f"pid {forger.process.pid} of {user}"


@as_root
@pytest.mark.parametrize("mode", ["full", "deep", "late", "forged"])
def test_a_run_beside_a_lease_of_another_user_goes_well_and_is_known_to_be_clean(
    mode: str, node: Node, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    controller = node.started(task(tmp_path, "read line < go", devices=[905]))
    with Forger(mode, device(node, 906)):
        refused = node.refusal(task(tmp_path, "true", run="r2", devices=[905, 906]))
        (tmp_path / "go").write_text("on\n")
        assert controller.until(protocol.Finished).leftovers == []
    first, second = (reason.message for reason in refused)
    # All holders together have a second: the run that holds a device has not always answered on a busy machine.
    names = ("run r1", f"pid {node.supervisor(controller)}")
    assert first.startswith(tuple(f"device 905 is leased to {name} of " for name in names))
    assert f"of {pwd.getpwuid(NOBODY).pw_name}" in second
    assert refused[1].hint == ""


def test_an_answer_that_arrives_while_the_process_that_asks_is_paused_counts(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = leases.take(device(node, 910))
    assert not isinstance(lease, leases.Holder)
    connect = leases._connect

    def paused(name: str) -> leases._Question | int:
        question = connect(name)
        leases.answer(lease, "r1", [910], 1.0)
        return question

    monkeypatch.setattr(leases, "_connect", paused)
    monkeypatch.setattr(leases, "ANSWER_S", 0.0)
    with lease:
        holder = leases.holder(device(node, 910))
    assert holder is not None
    assert (holder.run, holder.devices) == ("r1", [910])


def test_a_holder_that_exits_while_it_is_asked_refuses_no_start(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ANSWER_S", 60.0)
    exiting = socket.socket(socket.AF_UNIX)
    exiting.bind(device(node, 909))
    exiting.listen()

    def exits() -> None:
        with exiting.accept()[0]:
            exiting.close()

    holder = threading.Thread(target=exits)
    holder.start()
    holdings = Holdings(task(tmp_path, "true", devices=[909]), NodeRoot(str(node.root)))
    assert holdings.take() == []
    assert len(holdings.leases) == 1
    holdings.drop()
    holder.join()


@as_root
def test_a_run_id_that_another_user_forges_leaves_nothing_behind_of_a_finished_run(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ANSWER_S", 60.0)
    holdings = Holdings(task(tmp_path, "true", devices=[907]), NodeRoot(str(node.root)))
    with Forger("forged", device(node, 907)):
        assert list(holdings.still_taken()) == []
    with Forger("forged", device(node, 907), uid=0):
        assert ["device 907 is still leased to run r1" in left for left in holdings.still_taken()] == [True]


@as_root
def test_rendezvous_ports_with_silent_holders_cost_a_second_and_name_the_holders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "candidates", lambda: list(range(PORT, PORT + 200)))
    with Forger("silent", *map(leases.port_name, ports.candidates())) as forger:
        begun = time.monotonic()
        (reason,) = Holdings(task(tmp_path, "true", choose_port=True), NodeRoot(str(tmp_path))).take()
        assert time.monotonic() - begun < BOUND_S
    user = pwd.getpwuid(NOBODY).pw_name
    assert reason.code == "port-busy"
    assert reason.message.endswith(f"; {PORT}-{PORT + 199}: held for pid {forger.process.pid} of {user}")


def test_a_holder_that_asks_and_never_reads_costs_the_agent_nothing(node: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    controller = node.started(task(tmp_path, "read line < go", devices=[908]))
    asking = [socket.socket(socket.AF_UNIX) for _ in range(50)]
    for each in asking:
        each.setblocking(False)
        each.connect_ex(device(node, 908))
    (tmp_path / "go").write_text("on\n")
    assert controller.until(protocol.Finished).leftovers == []
    for each in asking:
        each.close()
    gone(node.supervisor(controller))


def test_sockets_are_listed_with_their_users_and_names_as_they_are() -> None:
    name = "\0pylaunch/test/a\nb c\x1b"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(name)
        owners = unix_sockets.owners()
    assert owners is not None
    assert owners[name] == os.getuid()


@given(
    st.binary()
    | st.fixed_dictionaries(
        {},
        optional={
            "run": st.text() | st.just("r1") | st.integers(),
            "since": st.floats() | st.integers() | st.none(),
            "devices": st.lists(st.integers() | st.text()) | st.none(),
        },
    ).map(lambda body: json.dumps(body).encode())
)
def test_any_answer_makes_a_printable_holder(answer: bytes) -> None:
    found = leases.decoded(answer, os.getuid(), 7)
    assert "\n" not in str(found)
    assert str(found).isprintable()
