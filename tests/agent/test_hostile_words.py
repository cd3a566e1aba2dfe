"""Hostile messages on the sockets of an agent, and other users who connect: its run continues."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.peers import _mac
from pylaunch.agent.run.worker_group import MOST_PROCESSES, MOST_REPORTS
from pylaunch.agent.shared.sockets import local_socket
from tests.agent.controller import Node, gone, task
from tests.waiting import wait_until

KEY = "5e" * 32
DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000
ENTRY = b'{"local_rank": 0}'
HOSTILE = [
    b"", b"\0" * 1000, b"null", b"[]", b"1e999", b"[" * 900_000, DEEP, b"x" * (2 << 20),
    b'{"type": {}}',
    b'{"type": "Ping", "leads": 1e3}',
    b'{"type": "Stop", "grace_s": 1e308, "reason": ""}',
    b'{"type": "Follow", "offsets": {"0.out": -7}}',
    b'{"type": "Follow", "offsets": {"0.out": -7}, "streams": null}',
    b'{"type": "Follow", "offsets": {"0.out": 1e99}, "streams": null}',
    b'{"type": "Follow", "offsets": {"0.out": 36893488147419103232}, "streams": null}',
    b'{"type": "Follow", "offsets": {}, "streams": null, "activity_s": -5.0}',
    b'{"type": "Follow", "offsets": {}, "streams": null, "tail": -7, "lag": -7}',
    b'{"type": "Examine", "serial": -1, "within_s": 1e18, "node": true}',
    b'{"type": "Release", "at": 1, "ports": {"n2": 99999}, "key": "zz"}',
    b'{"type": "TryPeers", "ports": {"n2": 99999}}',
    protocol.encode(protocol.Prepare(task(Path("/"), "true", run="../../x"))).rstrip(b"\n"),
]  # fmt: skip
HOSTILE_ENTRIES = [
    [b"[" * 100_000], [b"null"], [b"{}"], [b'{"local_rank": {}}'], [ENTRY, b"[]"], [ENTRY, DEEP],
    [ENTRY, b'{"started": 1e999, "time": 1}'], [ENTRY, b'{"started": 99999999999, "time": 1}'],
    [ENTRY, b'{"started": 2, "time": 1e999}'], [ENTRY, b'{"ended": 1e99, "time": 1, "signalled": 0}'],
    [ENTRY, b'{"ended": 123456789, "time": 1, "signalled": 0}'],
]  # fmt: skip


def send(path: Path, *lines: bytes) -> None:
    """Connect, send `lines`, and read until the end or a timeout."""
    with local_socket.connect(str(path), timeout_s=0.2) as connection:
        try:
            connection.sendall(b"".join(line + b"\n" for line in lines))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        except OSError:
            return


def test_a_run_survives_any_message_on_its_sockets(node: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    controller = node.started(task(tmp_path, "read line < go"))
    controller.pid(0)
    directory = node.root / "runs" / "r1"
    for line in HOSTILE:
        send(directory / "agent.sock", line)
    for lines in HOSTILE_ENTRIES:
        send(directory / "ranks.sock", *lines)
    (tmp_path / "go").write_text("on\n")
    assert controller.until(protocol.Finished).leftovers == []
    assert controller.ended(0).exit_code == 0


def test_a_rank_that_reports_its_start_without_end_causes_few_events(node: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    controller = node.started(task(tmp_path, "read line < go"))
    controller.pid(0)
    started = json.dumps({"started": MOST_PROCESSES - 1, "time": 1}).encode()
    for _ in range(3):
        send(node.root / "runs" / "r1" / "ranks.sock", ENTRY, *[started] * 1000)
    (tmp_path / "go").write_text("on\n")
    controller.until(protocol.Finished)
    assert len(controller.all(protocol.RankStarted)) <= 1 + MOST_REPORTS
    assert controller.ended(0).exit_code == 0


@pytest.fixture
def alone(agent_archive: Path, tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "n1", agent_archive)
    yield node
    node.close()


def test_a_peer_with_the_key_can_send_anything_without_ending_an_agent(alone: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    peers = {"n1": "127.0.0.1", "n2": "127.0.0.1", "n3": "-" * 70 + "." * 300}
    controller = alone.prepared(task(tmp_path, "read line < go", host="n1", peers=peers))
    port = controller.all(protocol.Ready)[0].port
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"n1": port, "n2": other.getsockname()[1]}
        controller.send(protocol.Follow({}, None), protocol.Release(0.0, ports, KEY))
        controller.pid(0)
        word = {"sender": "n2", "to": "n1", "serial": 1, "answers": 0, "stop": "", "grace_s": 0.0, "over": False}
        for body in (DEEP[:8000], b"[" * 8000, b"null", json.dumps({**word, "serial": -1}).encode(),
                     json.dumps({**word, "stop": "x", "grace_s": 1e300}).encode(), b"{}", b"\xff" * 100):  # fmt: skip
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(_mac(bytes.fromhex(KEY), body) + b" " + body + b"\n")
                assert connection.recv(100) == b""
        (tmp_path / "go").write_text("on\n")
        assert controller.until(protocol.Finished).leftovers == []
    assert not controller.all(protocol.Stopping)


def test_a_supervisor_has_a_limit_of_connections_and_serves_its_controller(node: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    controller = node.started(task(tmp_path, "read line < go"))
    controller.pid(0)
    path = str(node.root / "runs" / "r1" / "agent.sock")
    crowd: list[socket.socket] = []

    def is_full() -> bool:
        with contextlib.suppress(BlockingIOError):  # More than the kernel keeps waiting: it takes them soon.
            crowd.append(local_socket.connect(path, timeout_s=60))
            return len(crowd) > 90 and not crowd[-1].recv(10)
        return False

    wait_until(is_full, "a connection that is not served")
    assert len(crowd) <= 101
    (tmp_path / "go").write_text("on\n")
    assert controller.until(protocol.Finished).leftovers == []
    for each in crowd:
        each.close()
    gone(node.supervisor(controller))


CONNECT = """\
import os, socket, sys
os.setuid(65534)
path = sys.argv[1]
with socket.socket(socket.AF_UNIX) as asking:
    try:
        asking.connect(path)
        print("heard %d" % len(asking.recv(100)))
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_cannot_talk_to_an_agent_even_where_the_directories_let_it(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "sleep 60"))
    controller.pid(0)
    directory = node.root / "runs" / "r1"
    ways = {name: directory / name for name in ("agent.sock", "ranks.sock")}

    def tried(path: Path) -> str:
        words = [sys.executable, "-I", "-S", "-c", CONNECT, path.name]
        return subprocess.run(words, cwd=path.parent, capture_output=True, text=True, check=True).stdout.strip()

    modes = {path.stat().st_mode & 0o777 for path in ways.values()} | {directory.stat().st_mode & 0o077}
    assert modes == {0o600, 0}
    assert {tried(path) for path in ways.values()} == {"Permission denied"}
    for opened in (node.root, node.root / "runs", directory, *ways.values(), *directory.parents):
        if opened.is_relative_to(tmp_path.parent):
            opened.chmod(0o777)
    assert {tried(path) for path in ways.values()} <= {"heard 0", "Connection reset by peer"}
    controller.send(protocol.Stop(0.0, "enough"))
    assert controller.until(protocol.Finished).leftovers == []


def test_all_that_an_agent_writes_is_for_its_user_alone(node: Node, tmp_path: Path) -> None:
    controller = node.ran(task(tmp_path, "echo out; exit 1", log_limit=1 << 20))
    gone(node.supervisor(controller))
    assert (node.root / "runs" / "r1" / "outcome.json").exists()
    found = [path for path in (node.root, *node.root.rglob("*")) if not path.is_symlink()]
    assert [str(path) for path in found if path.stat().st_mode & 0o077] == []
