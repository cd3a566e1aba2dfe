"""Facts of a node are reported on request, and between the announcement of a stop and its end."""

import contextlib
import os
import socket
import time
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.evidence import counters
from pylaunch.agent.evidence.gpu_counters import GpuCounters, GpuReader
from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.evidence.node_facts import NodeFacts
from pylaunch.agent.evidence.ranks import rank_sockets
from tests.agent.controller import Controller, Node, gone, task
from tests.waiting import wait_until


def test_facts_follow_the_announcement_and_precede_the_end(node: Node, tmp_path: Path) -> None:
    controller = node.ran(task(tmp_path, "exit 3"))
    kinds = [type(each) for each in controller.received]
    assert kinds.index(protocol.Stopping) < kinds.index(protocol.HostEvidence) < kinds.index(protocol.Finished)
    (facts,) = controller.all(protocol.HostEvidence)
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
    controller.send(protocol.Stop(0.0, "Ctrl-C", by_hand=True))
    controller.until(protocol.Finished)
    assert controller.all(protocol.HostEvidence) == []


def test_facts_are_replayed_after_the_end(node: Node, tmp_path: Path) -> None:
    controller = node.ran(task(tmp_path, "exit 3"))
    gone(node.supervisor(controller))
    again = node.attach()
    again.send(protocol.Follow({}, []))
    again.until(protocol.Finished)
    assert again.all(protocol.HostEvidence) == controller.all(protocol.HostEvidence)


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


def test_a_request_without_facts_gets_views_only(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "echo up; exec sleep 600"))
    controller.pid(0)
    controller.send(protocol.Examine(1, within_s=10.0))
    controller.until(protocol.Examined)
    assert controller.all(protocol.HostEvidence) == []
    assert [each.rank for each in controller.all(protocol.RankView)] == [0]


def test_requests_share_a_read_that_hangs_and_get_no_facts_of_an_earlier_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "net"
    os.mkfifo(pipe)  # A read of it waits, as that of a file of a driver that hangs.
    monkeypatch.setattr(counters, "PRESSURE", str(tmp_path))
    (tmp_path / "cpu").symlink_to(pipe)
    facts = NodeFacts(KernelLog(str(tmp_path / "absent")))
    hanging = facts.requested({os.getpid(): 0}, 0.5)
    wait_until(hanging.has_sockets.is_set, "the connections")
    assert facts.requested({}, 0.5) is hanging, "one thread at most waits for the driver"
    wait_until(lambda: time.monotonic() > hanging.ends_at + hanging.budget_s, "the time of the request")
    assert hanging.is_over(time.monotonic())
    late = facts.known(hanging, 7)
    assert (late.serial, late.stuck, late.connections, late.time > hanging.time) == (7, (), 0, True)
    assert any("has not ended" in each for each in late.missing)
    (tmp_path / "cpu").unlink()
    pipe.open("wb").close()
    wait_until(hanging.is_complete.is_set, "the end of the read")
    again = facts.requested({}, 60.0)
    wait_until(again.is_complete.is_set, "the facts")
    assert again is not hanging
    assert not any("has not ended" in each for each in facts.known(again, 8).missing)


def reader_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> GpuReader:
    """Return a reader whose nvidia-smi is `script`."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return GpuReader()


def test_nvidia_smi_is_asked_for_its_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(tmp_path, monkeypatch, 'echo "$@" > "$0.asked"; echo "0, 3, 40, 7, 2"')
    found = reader.read(time.monotonic() + 60)
    assert found.counters == {"gpu0 ecc_uncorrected": 3}
    assert found.gauges == {"gpu0 temperature": 40, "gpu0 utilization": 7, "gpu0 memory used": 2 << 20}
    asked = (tmp_path / "bin" / "nvidia-smi.asked").read_text()
    assert asked.startswith("--query-gpu=index,ecc.errors.uncorrected.volatile.total,")


def test_an_nvidia_smi_that_hangs_is_left_alone_and_not_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, calls = tmp_path / "pipe", tmp_path / "calls"
    os.mkfifo(pipe)
    reader = reader_of(tmp_path, monkeypatch, f'echo called >> {calls}; read line < {pipe}; echo "0, 0, 1, 1, 1"')
    assert reader.read(time.monotonic()).missing == "GPUs: no answer of nvidia-smi in time"
    assert reader.read(time.monotonic() + 60).missing == "GPUs: an earlier call of nvidia-smi has not ended"
    pipe.write_text("go\n")
    pipe.unlink()
    pipe.write_text("go\n")
    wait_until(lambda: reader.read(time.monotonic() + 60).counters, "a call after the end of the first one")
    assert calls.read_text() == "called\n" * 2


def test_without_nvidia_smi_nothing_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert GpuReader().read(time.monotonic()) == GpuCounters()
