"""Any line that reaches an agent is a message within bounds, or is rejected."""

import dataclasses
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch import protocol
from pylaunch.agent.peers import peer_status
from pylaunch.agent.peers.neighbours import look_up
from pylaunch.agent.run.ranks.worker_group import Ended, RankConnection, Started, WorkerGroup
from pylaunch.base.layout import NodeRoot, RunDirectory
from pylaunch.protocol import bounds
from tests.agent.controller import task

KEY = b"k" * 32
GOOD = task(Path("/"), "true", devices=[0, 1], hold_port=29500, peers={"n1": "127.0.0.1"}, env_file="/etc/x")
DEEP = b'{"a":' * 3000 + b"1" + b"}" * 3000

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from([-1, 1 << 63, 1e308, 70000, "../x", "a\0b", "A=B", ""])
)  # fmt: skip


def mutated(message: object) -> st.SearchStrategy[bytes]:
    """`message` as a line, with another value in one or two of its places."""
    whole = json.loads(protocol.encode(message))
    places = list(_places(whole, ()))

    def put(changes: list[tuple[tuple[Any, ...], Any]]) -> bytes:
        body = json.loads(protocol.encode(message))
        for (*path, last), value in changes:
            inner = body
            for step in path:
                inner = inner[step] if isinstance(inner, (dict, list)) else {}
            if isinstance(inner, (dict, list)):
                inner[last] = value
        return json.dumps(body).encode()

    return st.lists(st.tuples(st.sampled_from(places), LEAVES), min_size=1, max_size=1).map(put)


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in items:
        yield (*path, name)
        yield from _places(each, (*path, name))


MESSAGES = [
    protocol.Ping(1),
    protocol.Prepare(GOOD, {"TOKEN": "secret"}),
    protocol.TryPeers({"n1": 1}),
    protocol.Release(1.0, {"n1": 1}, "ab", 29500),
    protocol.Follow({"0.out": 1}, ["0.out"], 1, 1, 1.0, 1.0),
    protocol.Stop(1.0, "why"),
]


@given(line=st.binary() | st.sampled_from([DEEP, b"[" * 100_000]) | st.sampled_from(MESSAGES).flatmap(mutated))
def test_any_line_is_a_message_within_bounds_or_rejected(line: bytes) -> None:
    try:
        order = bounds.checked(protocol.decode(line))
    except protocol.WireError:
        return
    protocol.decode(protocol.encode(order))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_of_controllers_are_within_bounds(message: object) -> None:
    assert bounds.checked(message) is message


BAD_TASKS: list[dict[str, Any]] = [
    {"run": "../../x"},
    {"hold_port": 70000},
    {"hold_port": -1},
    {"devices": [-1]},
    {"devices": [1 << 62]},
    {"devices": list(range(5000))},
    {"grace_s": 1e300},
    {"grace_s": -1.0},
    {"node_timeout_s": -1.0},
    {"log_limit": -1},
    {"workdir": "/\0"},
    {"python": "\0"},
    {"env_file": "\0"},
    {"env": {"A": "\0"}},
    {"env": {"A=B": ""}},
    {"env": {"": ""}},
    {"launcher": ["a\0"]},
    {"needs": [protocol.Need("\0", "")]},
    {"ranks": [protocol.RankTask(0, 0, [], {})]},
    {"ranks": [protocol.RankTask(-1, 0, ["a"], {})]},
]


@pytest.mark.parametrize("changes", BAD_TASKS, ids=lambda changes: next(iter(changes)))
def test_a_task_out_of_bounds_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(protocol.WireError, match="out of bounds"):
        bounds.checked(protocol.Prepare(dataclasses.replace(task(Path("/"), "true"), **changes)))


@pytest.mark.parametrize(
    "message",
    [
        protocol.Release(1.0, {"n1": 70000}),
        protocol.Release(1.0, {}, "no hex"),
        protocol.Release(1.0, {}, "", 0),
        protocol.TryPeers({"n1": -1}),
        protocol.Follow({"0.out": -1}, None),
        protocol.Follow({}, None, tail=-1),
        protocol.Follow({}, None, usage_s=1e-300),
        protocol.Stop(1e300, ""),
    ],
)
def test_a_message_out_of_bounds_is_refused(message: object) -> None:
    with pytest.raises(protocol.WireError, match="out of bounds"):
        bounds.checked(message)


@given(body=st.binary() | st.sampled_from([DEEP, b"[" * 8000]) | st.dictionaries(
    st.sampled_from(["sender", "to", "serial", "answers", "stop", "grace_s", "over"]), LEAVES
).map(lambda body: json.dumps(body).encode()))  # fmt: skip
def test_any_line_of_a_peer_with_the_key_is_a_status_within_bounds_or_rejected(body: bytes) -> None:
    try:
        word = peer_status.decode(KEY, peer_status._mac(KEY, body) + b" " + body)
    except protocol.WireError:
        return
    assert word.serial >= 0
    assert 0 <= word.grace_s <= peer_status.MAX_GRACE_S


FROM_ENTRY = st.dictionaries(
    st.sampled_from(["local_rank", "started", "ended", "time", "signalled"]), LEAVES | st.just(0)
)


@given(lines=st.lists(st.binary() | st.sampled_from([DEEP]) | FROM_ENTRY.map(lambda body: json.dumps(body).encode())))
def test_any_line_of_a_rank_entry_is_a_start_or_an_end_within_bounds_or_rejected(
    lines: list[bytes],
) -> None:
    workers, entry = connected()
    for line in [b'{"local_rank": 0}', *lines]:
        try:
            event = workers.on_message(entry, line, refusal=None)
        except protocol.WireError:
            continue
        if isinstance(event, Started):
            assert event.pid > 1
            assert json.dumps(event.time, allow_nan=False)
        elif isinstance(event, Ended):
            assert event.failure is None or event.failure.startswith("rank 0 ")
    close(workers, entry)


def connected() -> tuple[WorkerGroup, RankConnection]:
    asked = protocol.Prepare(task(Path("/"), "true"))
    ours, theirs = socket.socketpair()
    theirs.close()
    return WorkerGroup(asked, NodeRoot("/nowhere"), RunDirectory("r1", "/nowhere/runs/r1")), RankConnection(ours)


def close(workers: WorkerGroup, entry: RankConnection) -> None:
    entry.close()
    for end in workers._gate:
        os.close(end)


@pytest.mark.parametrize("pid", [-1, 0, 1, True, 1.5, 2.5, 1 << 23, "1", None])
def test_a_start_without_a_valid_process_id_is_rejected(pid: object) -> None:
    workers, entry = connected()
    workers.on_message(entry, b'{"local_rank": 0}', refusal=None)
    with pytest.raises(protocol.WireError, match="from a rank entry"):
        workers.on_message(entry, json.dumps({"started": pid, "time": 1.0}).encode(), refusal=None)
    close(workers, entry)


@pytest.mark.parametrize("status", [-1, True, 0.1, 256.0, 1 << 16, "0", None])
def test_an_end_without_a_valid_status_is_rejected(status: object) -> None:
    workers, entry = connected()
    workers.on_message(entry, b'{"local_rank": 0}', refusal=None)
    with pytest.raises(protocol.WireError, match="from a rank entry"):
        workers.on_message(entry, json.dumps({"ended": status, "time": 1.0, "signalled": False}).encode(), refusal=None)
    close(workers, entry)


@given(st.text())
def test_any_address_is_resolved_or_omitted(address: str) -> None:
    assert set(look_up({"n1": "127.0.0.1", "n2": "[" + address})) <= {"n1", "n2"}
