"""Messages between agents, neighbours and heartbeats, without a network."""

import itertools
import socket
from types import SimpleNamespace

import pytest

from pylaunch import protocol
from pylaunch.agent import peers
from pylaunch.agent import peers as test_connections
from pylaunch.agent.peers import neighbours, try_connections
from pylaunch.protocol.heartbeats import Heartbeats
from pylaunch.protocol.messages import PAUSE_S

KEY = b"k" * 32
STATUS = peers.PeerStatus("n2", "n1", 7, stop="n2: rank 1 ended with exit code 9", grace_s=1.0)


@pytest.mark.parametrize(
    "line",
    [
        peers.encode_status(b"x" * 32, STATUS).rstrip(b"\n"),
        peers.encode_status(KEY, STATUS).rstrip(b"\n").replace(b'"serial":7', b'"serial":8'),
        b"",
        b"GET / HTTP/1.1",
    ],
)
def test_a_line_without_the_key_of_the_run_is_rejected(line: bytes) -> None:
    with pytest.raises(protocol.WireError, match="key of this run"):
        peers.decode_status(KEY, line)


def test_the_longest_reason_in_the_worst_characters_fits_a_line() -> None:
    status = peers.PeerStatus("n" * 253, "m" * 253, 10**15, 10**15, stop="\x01é" * 5000, grace_s=86400.0)
    assert len(peers.encode_status(KEY, status)) <= peers.LONGEST_STATUS


def test_six_agents_watch_each_node_of_a_large_cluster() -> None:
    names = [f"n{number}" for number in range(100)]
    watched = [each for name in names for each in neighbours(name, names)]
    assert {watched.count(name) for name in names} == {6}
    assert neighbours("n0", names) == ["n97", "n98", "n99", "n1", "n2", "n3"]


def test_silence_counts_from_the_last_heartbeat() -> None:
    heartbeats = Heartbeats(["n1", "n2"], 100.0)
    for second in range(1, 11):
        heartbeats.check_pause(100.0 + second)
    for at in (109.0, 104.0):  # An older one arrives late.
        heartbeats.beat("n1", at)
    assert heartbeats.silent(110.0, 10.0) == ["n2"]
    assert (heartbeats.silence_s("n1"), heartbeats.silence_s("n2")) == (1.0, 10.0)
    heartbeats.forget("n2")
    assert heartbeats.silent(110.0, 10.0) == []


def test_a_pause_of_this_process_is_not_silence() -> None:
    heartbeats = Heartbeats(["n1"], 100.0)
    heartbeats.check_pause(101.0)
    heartbeats.check_pause(101.0 + 3600.0)
    assert heartbeats.silent(101.0 + 3600.0, 2.0) == []
    assert PAUSE_S < 3600.0


def test_a_node_that_is_held_up_calls_no_other_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.chain([0.0], itertools.repeat(100.0))
    monkeypatch.setattr(test_connections, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address, port = listener.getsockname()
        assert try_connections({"n2": (socket.AF_INET, address, port)}) == {"n2": test_connections.OK}
