"""Messages of one agent to another, in an order that two connections permit."""

import socket

import pytest

from pylaunch.agent.peers import peer_status
from pylaunch.agent.peers.messaging import Peers
from pylaunch.agent.peers.peer_status import PeerStatus
from pylaunch.agent.shared.event_loop import EventLoop

KEY = "5e" * 32
PATIENCE_S = 60.0


class Clock:
    """A clock that stands until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def put(connection: socket.socket, status: PeerStatus) -> None:
    connection.sendall(peer_status.encode(bytes.fromhex(KEY), status))


@pytest.mark.parametrize("is_over", [True, False])
def test_a_silent_node_is_lost_unless_it_has_ended_also_where_an_older_answer_follows_its_end(is_over: bool) -> None:
    clock, loop, stops = Clock(), EventLoop(), list[PeerStatus]()
    peers = Peers(loop, "n1", {"n1": "127.0.0.1", "n2": "127.0.0.1"}, stops.append, clock)
    with socket.create_server(("127.0.0.1", 0)) as n2:
        n2.settimeout(PATIENCE_S)
        peers.start({"n2": n2.getsockname()[1]}, KEY)
        peers.advance()
        answering, _ = n2.accept()
        with answering, socket.create_connection(("127.0.0.1", peers.port), PATIENCE_S) as incoming:
            put(incoming, PeerStatus("n2", "n1", 1))
            loop.wait(PATIENCE_S)  # The connection.
            loop.wait(PATIENCE_S)  # The message: from now on, silence of n2 counts.
            if is_over:
                put(incoming, PeerStatus("n2", "n1", 3, over=True))
                loop.wait(PATIENCE_S)
                put(answering, PeerStatus("n2", "n1", 2, answers=1))
                loop.wait(PATIENCE_S)
    for _ in range(20):
        clock.now += 1.0
        peers.advance()
    assert peers.silent(3.0) == ([] if is_over else ["n2"])
    assert not stops
