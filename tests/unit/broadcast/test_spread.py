"""Hosts that a broadcast gives up, and those that only seem to stand still."""

import math
import time

from pylaunch.broadcast.node_source import STUCK_S
from pylaunch.broadcast.payload import Payload
from pylaunch.broadcast.progress import Received
from pylaunch.broadcast.spread import MOST_WAITED_S, SLOWEST, TICK_S, _Broadcast, _PieceHost, _Senders
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.manifest import File

PIECE = 4 << 20


def begun() -> _Broadcast:
    """A broadcast of a file of two pieces to two hosts."""
    cluster = Cluster(tuple(Host(name, name) for name in ("n1", "n2")))
    file = File("blob", 0o644, 2 * PIECE, "0" * 64)
    payload = Payload("/data", (), (file,), (), (), PIECE, (b"x" * 32, b"y" * 32))
    return _Broadcast(cluster, payload, _Senders(0), lambda _: None)


def watched(push: _Broadcast, node: _PieceHost, seconds: int, message: bytes) -> str | None:
    """Return the error of a host that repeats `message` for some time."""
    for after in range(0, seconds, int(TICK_S)):
        push._handle(node, message)
        node.heard_at = time.monotonic() + after
        if node.ended is None:
            push._check(node, time.monotonic() + after)
    return node.ended.error if node.ended is not None else None


def test_a_host_that_waits_for_another_transfer_is_given_up_for_that_alone() -> None:
    push = begun()
    node = push._nodes["n1"]
    assert watched(push, node, int(STUCK_S) + 100, b'{"at": 0, "waits": true}') is None
    assert push._progress().waiting == ("n1",)
    push._handle(node, b'{"at": 1}')
    assert push._progress().waiting == ()
    assert "received and wrote nothing" in str(watched(push, node, int(STUCK_S) * 3, b'{"at": 1, "waits": false}'))
    push = begun()
    error = watched(push, push._nodes["n1"], int(MOST_WAITED_S) + 10, b'{"at": 0, "waits": true}')
    assert "another transfer of the same files" in str(error)


def test_nothing_is_sent_while_another_transfer_has_the_first_host() -> None:
    push = begun()
    first, second = push._nodes.values()
    push._handle(first, b'{"at": 0, "waits": true}')
    first.waited_s = STUCK_S - 60
    line = push._progress().line
    assert line.endswith("; n1 waits for another transfer of the same files, the other hosts for it, 60 s at most")
    push._handle(second, b'{"at": 0, "waits": true}')
    assert push._progress().line.endswith("; n[1-2] wait for another transfer of the same files")
    push._handle(first, b'{"at": 1}')
    assert not push._held_s(), "the other transfer waits for this one"
    push._handle(first, b'{"at": 2, "waits": true}')
    assert push._held_s()
    first.waited_s = STUCK_S
    assert not push._held_s(), "the other one has other names for these hosts, and yields to this one"
    first.ended = Received("lost", None, True, 0, 0, 1.0)
    assert push._held_s(), "the second host is the first of those that are left"
    second.ended = first.ended
    assert not push._held_s()


def test_a_host_that_was_ready_cannot_say_that_it_waits() -> None:
    push = begun()
    node = push._nodes["n1"]
    push._handle(node, b'{"ready": {"port": 4000, "have": []}}')
    push._swarm.orders(0.0)
    assert "received and wrote nothing" in str(watched(push, node, int(STUCK_S) * 3, b'{"at": 0, "waits": true}'))


def test_a_host_that_had_everything_says_nothing_about_how_long_the_others_take() -> None:
    push = begun()
    push._handle(push._nodes["n1"], b'{"ready": {"port": 4000, "have": [0, 1]}}')
    push._handle(push._nodes["n1"], b'{"done": true}')
    assert push._slowest_s() == math.inf
    push._handle(push._nodes["n2"], b'{"ready": {"port": 4000, "have": [0]}}')
    push._handle(push._nodes["n2"], b'{"done": true}')
    received = push._nodes["n2"].ended
    assert received is not None
    assert push._slowest_s() == STUCK_S + SLOWEST * 2 * received.seconds
    push._nodes["n2"].waited_s = 0.5 * received.seconds
    assert push._slowest_s() == STUCK_S + SLOWEST * received.seconds
