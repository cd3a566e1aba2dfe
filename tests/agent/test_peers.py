"""Agents of one run among themselves: several nodes on this machine, each with a root of its own."""

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pylaunch import protocol
from pylaunch.agent import peers
from tests.agent.controller import Controller, Node, gone, is_alive, task
from tests.files import content_below

KEY = "5e" * 32
PATIENT = "echo up; exec sleep 60"

Together = Callable[..., list[Controller]]


@pytest.fixture
def together(agent_archive: Path, tmp_path: Path) -> Iterator[Together]:
    """Start one run on as many nodes as there are programs; return the controllers in rank order."""
    nodes: list[Node] = []

    def start(*programs: str, ports: dict[str, int] | None = None, **changes: Any) -> list[Controller]:
        names = [f"n{number + 1}" for number in range(len(programs))]
        peers = dict.fromkeys(names, "127.0.0.1")
        controllers = []
        for name, program in zip(names, programs, strict=True):
            node = Node(tmp_path / name, agent_archive)
            nodes.append(node)
            controllers.append(node.prepared(task(tmp_path, program, host=name, peers=peers, **changes)))
        known = {name: each.all(protocol.Ready)[0].port for name, each in zip(names, controllers, strict=True)}
        for each in controllers:
            each.send(protocol.Follow({}, None), protocol.Release(0.0, {**known, **(ports or {})}, KEY))
        for each in controllers:
            each.pid(0)
        return controllers

    yield start
    for node in nodes:
        node.close()


def test_prepared_agents_report_which_ports_of_each_other_they_can_connect_to(
    agent_archive: Path, tmp_path: Path
) -> None:
    peers = dict.fromkeys(("n1", "n2", "n3", "n4"), "127.0.0.1")
    nodes = [Node(tmp_path / name, agent_archive) for name in ("n1", "n2")]
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, socket.socket() as closed:
        full = deaf.getsockname()
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:  # Until the kernel drops further ones.
            caller.setblocking(False)
            caller.connect_ex(full)
        closed.bind(("127.0.0.1", 0))  # It never listens, and nobody else can.
        nobody = closed.getsockname()[1]
        first, second = (
            node.prepared(task(tmp_path, PATIENT, host=f"n{number}", peers=peers))
            for number, node in enumerate(nodes, start=1)
        )
        ports = {f"n{number}": each.all(protocol.Ready)[0].port for number, each in enumerate((first, second), start=1)}
        first.send(protocol.TryPeers({"n2": ports["n2"], "n3": nobody, "n4": full[1], "n9": 1}))
        second.send(protocol.TryPeers({"n1": ports["n1"]}))
        assert first.until(protocol.PeersTried).ends == {"n2": "ok", "n3": "refused", "n4": "silent", "n9": "nameless"}
        assert second.until(protocol.PeersTried).ends == {"n1": "ok"}
        for caller in callers:
            caller.close()
    for each in (first, second):
        each.send(protocol.Follow({}, None), protocol.Release(0.0, ports, KEY))
        each.pid(0)
    second.send(protocol.Stop(0.1, "by hand"))
    assert first.until(protocol.Stopping).reason == "n2: by hand", (
        "agents that tried each other still talk to each other"
    )
    for node in nodes:
        node.close()


def supervisor(controller: Controller) -> int:
    return controller.all(protocol.Hello)[0].pid


def stop_reason(root: Path) -> str:
    lines = (root / "runs/r1/events.jsonl").read_bytes().splitlines()
    return next(each.reason for each in map(protocol.decode, lines) if isinstance(each, protocol.Stopping))


def test_a_failure_stops_all_nodes_when_every_controller_is_gone(together: Together, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    os.mkfifo(flag)
    controllers = together(PATIENT, f"read line < {flag}; exit 9", PATIENT, node_timeout_s=600.0, grace_s=600.0)
    pids = [each.pid(0) for each in controllers]
    for each in controllers:
        each.kill()
    flag.write_text("now\n")
    gone(*pids)
    assert stop_reason(tmp_path / "n1") == stop_reason(tmp_path / "n3") == "n2: rank 0 ended with exit code 9"
    gone(*map(supervisor, controllers))


def test_a_stop_that_reached_one_node_reaches_all(together: Together, tmp_path: Path) -> None:
    controllers = together(PATIENT, PATIENT)
    controllers[0].send(protocol.Stop(5.0, "by hand"))
    controllers[1].until(protocol.Finished)
    assert controllers[1].all(protocol.Stopping)[0].reason == "n1: by hand"
    assert controllers[1].ended(0).stopped


def test_a_node_whose_run_has_ended_does_not_count_as_lost(together: Together, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    os.mkfifo(flag)
    first, second = together("exit 0", f"read line < {flag}", node_timeout_s=3.0)
    first.until(protocol.Finished)
    gone(supervisor(first))
    second.kill()
    pause(4.5)
    assert is_alive(second.pid(0))
    flag.write_text("now\n")
    gone(supervisor(second))
    assert not any(b'"Stopping"' in line for line in (tmp_path / "n2/runs/r1/events.jsonl").read_bytes().splitlines())


def hears(controller: Controller, sender: str) -> None:
    """Wait until the agent n1 of `controller` has heard `sender`: from that agent, or from here."""
    with socket.create_connection(("127.0.0.1", controller.all(protocol.Ready)[0].port), timeout=60) as peer:
        peer.sendall(peers.encode_status(bytes.fromhex(KEY), peers.PeerStatus(sender, "n1", 1)))
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(1 << 16):
            continue


def pause(seconds: float) -> None:
    """Wait while nothing may happen."""
    select.select([], [], [], seconds)


def test_a_silent_node_stops_the_others_only_when_no_controller_decides(together: Together, tmp_path: Path) -> None:
    first, second = together(PATIENT, PATIENT, node_timeout_s=5.0)
    hears(first, "n2")  # An agent that was never heard does not count as lost.
    os.kill(supervisor(second), signal.SIGSTOP)
    try:
        until = time.monotonic() + 6.5
        while time.monotonic() < until:
            first.send(protocol.Ping(leads=True))
            first.until(protocol.Pong)
            pause(0.2)
        assert is_alive(first.pid(0))
        first.kill()
        gone(first.pid(0))
    finally:
        os.kill(supervisor(second), signal.SIGCONT)
    assert stop_reason(tmp_path / "n1") == "n2 lost: no heartbeat for 5 s"
    second.until(protocol.Finished)  # It receives the stop when it runs again.


def test_a_run_that_must_not_outlive_its_controller_ends_when_its_heartbeats_stop(
    together: Together, tmp_path: Path
) -> None:
    (controller,) = together(PATIENT, node_timeout_s=1.0, ends_with_controller=True)
    controller.kill()
    gone(controller.pid(0))
    assert stop_reason(tmp_path / "n1") == "no heartbeat from the controller for 1 s"


@pytest.mark.parametrize("key", ["00" * 32, ""], ids=["another key", "no key"])
def test_a_message_without_the_key_of_the_run_stops_nothing(together: Together, key: str) -> None:
    first, _ = together(PATIENT, PATIENT)
    status = peers.PeerStatus("n2", "n1", 10**6, stop="forged")
    line = peers.encode_status(bytes.fromhex(key), status)
    with socket.create_connection(("127.0.0.1", first.all(protocol.Ready)[0].port), timeout=60) as stranger:
        stranger.sendall(line)
        assert stranger.recv(1) == b""
    assert is_alive(first.pid(0))
    with socket.create_connection(("127.0.0.1", first.all(protocol.Ready)[0].port), timeout=60) as member:
        member.sendall(peers.encode_status(bytes.fromhex(KEY), status))
        first.until(protocol.Stopping)


def test_the_key_is_written_nowhere(together: Together, tmp_path: Path) -> None:
    controllers = together(PATIENT, PATIENT)
    files = content_below(tmp_path / "n1" / "runs") | content_below(tmp_path / "n2" / "runs")
    assert files
    assert not [path for path, content in files.items() if KEY.encode() in content]
    environment = Path(f"/proc/{controllers[0].pid(0)}/environ").read_bytes()
    assert KEY.encode() not in environment
