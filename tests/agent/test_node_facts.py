"""The facts of a node that explain a failure are reported between the announcement of the stop and its end."""

from __future__ import annotations

import socket
from pathlib import Path

from pylaunch.agent import wire
from tests.agent.controller import Node, task

CONNECTED = """
import os, socket, sys, time
peer = socket.create_connection(("127.0.0.2", {port}))
peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
peer.setblocking(False)
try:
    while True:
        peer.send(bytes(1 << 16))
except BlockingIOError:
    print("full", flush=True)
time.sleep(600)
"""


def test_facts_follow_the_announcement_and_precede_the_end(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "exit 3"))
    controller.until(wire.Finished)
    kinds = [type(each) for each in controller.received]
    assert kinds.index(wire.Stopping) < kinds.index(wire.NodeEvidence) < kinds.index(wire.Finished)
    (facts,) = controller.all(wire.NodeEvidence)
    assert facts.seconds < 1.0
    assert facts.gauges["memory total"] > facts.gauges["memory available"] > 0


def test_a_connection_whose_peer_does_not_read_is_reported_with_its_rank(node: Node, tmp_path: Path) -> None:
    program = tmp_path / "send.py"
    with socket.create_server(("127.0.0.2", 0)) as listener:
        port = listener.getsockname()[1]
        program.write_text(CONNECTED.format(port=port))
        go = tmp_path / "go"
        controller = node.started(
            task(tmp_path, f"exec python3 {program}", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 3")
        )
        accepted, _ = listener.accept()
        with accepted:
            while controller.text("0.out") != "full\n":
                controller.until(wire.Output)
            go.touch()
            controller.until(wire.Finished)
    (facts,) = controller.all(wire.NodeEvidence)
    assert facts.connections == 1
    (found,) = [each for each in facts.sockets if each.rank is not None]
    assert (found.rank, found.state, found.peer, found.peer_port) == (0, "ESTABLISHED", "127.0.0.2", port)
    assert found.send_queue > 0
    assert found.retransmits == 0


def test_a_stop_by_a_person_reports_no_facts(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "exec sleep 600"))
    controller.pid(0)
    controller.send(wire.Stop(0.0, "Ctrl-C", by_hand=True))
    controller.until(wire.Finished)
    assert controller.all(wire.NodeEvidence) == []


def test_facts_are_replayed_after_the_end(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "exit 3"))
    controller.until(wire.Finished)
    controller.process.wait(15)
    again = node.attach()
    again.send(wire.Follow({}, []))
    again.until(wire.Finished)
    assert again.all(wire.NodeEvidence) == controller.all(wire.NodeEvidence)
