"""Facts of a node are reported on request, and between the announcement of a stop and its end."""

import contextlib
import os
import socket
import time
from pathlib import Path

from pylaunch import protocol
from pylaunch.agent.evidence import node_facts
from tests.agent.controller import Controller, Node, task


def test_facts_follow_the_announcement_and_precede_the_end(node: Node, tmp_path: Path) -> None:
    controller = node.ran(task(tmp_path, "exit 3"))
    kinds = [type(each) for each in controller.received]
    assert kinds.index(protocol.Stopping) < kinds.index(protocol.HostEvidence) < kinds.index(protocol.Finished)
    (facts,) = controller.all(protocol.HostEvidence)
    assert (facts.serial, facts.seconds > 0) == (protocol.UNASKED, True)


def test_a_connection_whose_peer_does_not_read_is_reported_with_its_rank() -> None:
    with socket.create_server(("127.0.0.2", 0)) as listener:
        place = listener.getsockname()
        with socket.create_connection(place) as sender, listener.accept()[0]:
            sender.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sender.send(bytes(1 << 16))
            own = sender.getsockname()[1]
            found, count, missing = node_facts.troubled({os.getpid(): 7}, time.monotonic() + 60)
    assert (missing, count >= 2) == ("", True)
    (mine,) = [each for each in found if each.local_port == own]
    assert (mine.rank, mine.state, mine.peer, mine.peer_port) == (7, "ESTABLISHED", *place)
    assert mine.send_queue > 0


def test_a_stop_by_a_person_reports_no_facts(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "exec sleep 600"))
    controller.pid(0)
    controller.send(protocol.Stop(0.0, "Ctrl-C", by_hand=True))
    controller.until(protocol.Finished)
    assert controller.all(protocol.HostEvidence) == []


SENDS_TO_A_PROCESS_THAT_DOES_NOT_READ = """
import socket, time
listener = socket.create_server(("127.0.0.2", 0))
sender = socket.create_connection(listener.getsockname())
kept, _ = listener.accept()
sender.setblocking(False)
try:
    while True:
        sender.send(bytes(1 << 16))
except BlockingIOError:
    print("port", listener.getsockname()[1], flush=True)
time.sleep(600)
"""


def answered(controller: Controller, serial: int) -> protocol.HostEvidence:
    """Request views and facts, and return the facts."""
    controller.send(protocol.Examine(serial, within_s=10.0, node=True))
    while controller.until(protocol.Examined).serial != serial:
        pass
    (facts,) = [each for each in controller.all(protocol.HostEvidence) if each.serial == serial]
    return facts


def test_facts_are_reported_on_request_while_the_ranks_run(node: Node, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SENDS_TO_A_PROCESS_THAT_DOES_NOT_READ)
    controller = node.started(task(tmp_path, ["/usr/bin/python3", str(script)]))
    while not (written := controller.until(protocol.Output).text).startswith("port "):
        pass
    port = int(written.split()[1])
    first = answered(controller, 1)
    ours = [each for each in first.stuck if each.peer_port == port]
    assert [(each.rank, each.peer, each.send_queue > 0) for each in ours] == [(0, "127.0.0.2", True)] or first.missing
    kinds = [type(each) for each in controller.received]
    assert kinds.index(protocol.RankView) < kinds.index(protocol.HostEvidence) < kinds.index(protocol.Examined)
    assert answered(controller, 2).time >= first.time, "each request reads again"
    controller.send(protocol.Stop(0.0, "Ctrl-C", by_hand=True))
    controller.until(protocol.Finished)
    assert [each.serial for each in controller.all(protocol.HostEvidence)] == [1, 2]
