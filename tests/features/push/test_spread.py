"""Hosts that a push gives up, and those that only seem to stand still."""

import time

from pylaunch.features.push.payload import Payload
from pylaunch.features.push.spread import STUCK_S, TICK_S, _PieceHost, _Push
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.manifest import File

PIECE = 4 << 20


def begun() -> _Push:
    """A push of a file of two pieces to two hosts."""
    cluster = Cluster(tuple(Host(name, name) for name in ("n1", "n2")))
    file = File("blob", 0o644, 2 * PIECE, "0" * 64)
    payload = Payload("/data", (), (file,), (), (), PIECE, (b"x" * 32, b"y" * 32))
    return _Push(cluster, payload, 0, lambda _: None)


def watched(push: _Push, node: _PieceHost, seconds: int, message: bytes) -> str | None:
    """Return the error of a host that repeats `message` for some time."""
    for after in range(0, seconds, int(TICK_S)):
        push._handle(node, message)
        node.heard_at = time.monotonic() + after
        if node.ended is None:
            push._check(node, time.monotonic() + after)
    return node.ended.error if node.ended is not None else None


def test_a_host_that_was_ready_and_stands_still_is_given_up() -> None:
    push = begun()
    node = push._nodes["n1"]
    push._handle(node, b'{"ready": {"port": 4000, "have": []}}')
    push._swarm.orders(0.0)
    assert "received and wrote nothing" in str(watched(push, node, int(STUCK_S) * 3, b'{"at": 0}'))
