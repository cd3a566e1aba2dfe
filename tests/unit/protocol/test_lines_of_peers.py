"""Any line of another agent or of a rank entry is within bounds, or is rejected."""

import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch import protocol
from pylaunch.agent import peers
from pylaunch.agent.evidence.rank_ends import Ended
from pylaunch.agent.peers import look_up
from pylaunch.agent.run.worker_group import RankConnection, Started, WorkerGroup
from pylaunch.base.layout import NodeRoot, RunDirectory
from tests.agent.controller import task

KEY = b"k" * 32
DEEP = b'{"a":' * 3000 + b"1" + b"}" * 3000

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from([-1, 1 << 63, 1e308, 70000, "../x", "a\0b", "A=B", ""])
)  # fmt: skip


@given(body=st.binary() | st.sampled_from([DEEP, b"[" * 8000]) | st.dictionaries(
    st.sampled_from(["sender", "to", "serial", "answers", "stop", "grace_s", "over"]), LEAVES
).map(lambda body: json.dumps(body).encode()))  # fmt: skip
def test_any_line_of_a_peer_with_the_key_is_a_status_within_bounds_or_rejected(body: bytes) -> None:
    try:
        word = peers.decode_status(KEY, peers._mac(KEY, body) + b" " + body)
    except protocol.WireError:
        return
    assert word.serial >= 0
    assert 0 <= word.grace_s <= peers.MAX_GRACE_S


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


@pytest.mark.parametrize(
    "body",
    [{"started": pid} for pid in (-1, 0, 1, True, 1.5, 2.5, 1 << 23, "1", None)]
    + [{"ended": status, "signalled": False} for status in (-1, True, 0.1, 256.0, 1 << 16, "0", None)],
)
def test_a_start_without_a_valid_process_id_and_an_end_without_a_valid_status_are_rejected(
    body: dict[str, object],
) -> None:
    workers, entry = connected()
    workers.on_message(entry, b'{"local_rank": 0}', refusal=None)
    with pytest.raises(protocol.WireError, match="from a rank entry"):
        workers.on_message(entry, json.dumps({**body, "time": 1.0}).encode(), refusal=None)
    close(workers, entry)


@given(st.text())
def test_any_address_is_resolved_or_omitted(address: str) -> None:
    assert set(look_up({"n1": "127.0.0.1", "n2": "[" + address})) <= {"n1", "n2"}
