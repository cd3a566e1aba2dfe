"""The facts of a node that explain a failure are reported between the announcement of the stop and its end."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from pylaunch.agent import wire
from pylaunch.agent.evidence import rank_sockets
from tests.agent.controller import Node, task


def test_facts_follow_the_announcement_and_precede_the_end(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "exit 3"))
    controller.until(wire.Finished)
    kinds = [type(each) for each in controller.received]
    assert kinds.index(wire.Stopping) < kinds.index(wire.NodeEvidence) < kinds.index(wire.Finished)
    (facts,) = controller.all(wire.NodeEvidence)
    assert facts.gauges.get("memory total", 0.0) > 0 or facts.missing, "a slow machine reports what it could not read"


def test_a_connection_whose_peer_does_not_read_is_reported_with_its_rank() -> None:
    with socket.create_server(("127.0.0.2", 0)) as listener:
        place = listener.getsockname()
        with socket.create_connection(place) as sender, listener.accept()[0]:
            sender.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sender.send(bytes(1 << 16))
            own = sender.getsockname()[1]
            found, count, missing = rank_sockets.troubled({os.getpid(): 7}, time.monotonic() + 60)
    assert (missing, count >= 2) == ("", True)
    (mine,) = [each for each in found if each.local_port == own]
    assert (mine.rank, mine.state, mine.peer, mine.peer_port) == (7, "ESTABLISHED", *place)
    assert mine.send_queue > 0


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
