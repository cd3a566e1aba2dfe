"""Facts of a node are reported on request, and between the announcement of a stop and its end."""

import itertools
from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Controller, Node, task
from tests.waiting import wait_until


def test_facts_follow_the_announcement_and_precede_the_end(node: Node, tmp_path: Path) -> None:
    controller = node.ran(task(tmp_path, "exit 3"))
    kinds = [type(each) for each in controller.received]
    assert kinds.index(protocol.Stopping) < kinds.index(protocol.HostEvidence) < kinds.index(protocol.Finished)
    (facts,) = controller.all(protocol.HostEvidence)
    assert facts.serial == protocol.UNASKED


def test_a_stop_by_a_person_reports_no_facts(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "exec sleep 600"))
    controller.pid(0)
    controller.send(protocol.Stop(0.0, "Ctrl-C", by_hand=True))
    controller.until(protocol.Finished)
    assert controller.all(protocol.HostEvidence) == []


CONNECTS_WITHOUT_AN_ANSWER = """
import socket, time
listener = socket.create_server(("127.0.0.2", 0), backlog=0)
waiting = [socket.socket() for _ in range(4)]
for each in waiting:
    each.setblocking(False)
    each.connect_ex(listener.getsockname())
print("port", listener.getsockname()[1], flush=True)
time.sleep(600)
"""
"""The kernel drops what does not fit into the backlog, and repeats it."""


def answered(controller: Controller, serial: int) -> protocol.HostEvidence:
    """Request views and facts, and return the facts."""
    controller.send(protocol.Examine(serial, within_s=10.0, node=True))
    while controller.until(protocol.Examined).serial != serial:
        pass
    (facts,) = [each for each in controller.all(protocol.HostEvidence) if each.serial == serial]
    return facts


def test_facts_are_reported_on_request_while_the_ranks_run(node: Node, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(CONNECTS_WITHOUT_AN_ANSWER)
    controller = node.started(task(tmp_path, ["/usr/bin/python3", str(script)]))
    while not (written := controller.until(protocol.Output).text).startswith("port "):
        pass
    port = int(written.split()[1])
    serials = itertools.count(1)

    def unanswered() -> list[protocol.StuckConnection]:
        return [each for each in answered(controller, next(serials)).stuck if each.peer_port == port]

    found = wait_until(unanswered, "a repeated packet")
    assert {(each.rank, each.peer) for each in found} == {(0, "127.0.0.2")}
    kinds = [type(each) for each in controller.received]
    assert kinds.index(protocol.RankView) < kinds.index(protocol.HostEvidence) < kinds.index(protocol.Examined)
    controller.send(protocol.Stop(0.0, "Ctrl-C", by_hand=True))
    controller.until(protocol.Finished)
    assert [each.serial for each in controller.all(protocol.HostEvidence)] == list(range(1, next(serials)))
