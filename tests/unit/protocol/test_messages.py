import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch import protocol
from pylaunch.agent.run import spawn
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.model import job, plan

PLACE, OTHER_PLACE = protocol.Frame("f", "p.py", 1), protocol.Frame("g", "p.py", 2)
TASK = protocol.NodeTask(
    run="7f3a9c01", host="n1", node_rank=0, workdir="/w", env={"A": "1"}, launcher=[], hold_port=None, devices=[0],
    ranks=[protocol.RankTask(0, 0, ["train.py", "ünï\ncode"], {"RANK": "0"})],
    needs=[protocol.Need("train.py", "copy it")],
    grace_s=1.0, world_size=1,
)  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        protocol.Prepare(TASK),
        protocol.Release(12.5),
        protocol.Follow({"0.out": 7}, None),
        protocol.Follow({}, ["0.out"]),
        protocol.Refused([protocol.Reason("disk-full", "no room", "df -h")]),
        protocol.RankEnd(0, "", None, 9, 1.0, stopped=False, last_lines=("last",)),
        protocol.HostEvidence(
            "n1",
            1.5,
            0.02,
            (protocol.KernelEvent("xid", 1.0, "NVRM: Xid", "0000:3b:00", 79),),
            (protocol.StuckConnection(None, "10.0.0.2", 8, 1, 4, 5),),
            ("10.0.0.1",),
            -3.25,
            ("no kernel messages",),
        ),
        protocol.RankView(
            3,
            "",
            110.0,
            0.0,
            4711,
            "S",
            2.5,
            "helper",
            "",
            (protocol.ThreadStack("MainThread", is_main=True, frames=(PLACE, OTHER_PLACE, PLACE)),),
            (protocol.ProcessGroup("0", "", (0, 3)),),
            (protocol.Collective("0", 4, "add", ((2, 3), ()), (), ("Float",), is_retired=False, call_site=(PLACE,)),),
            serial=1,
        ),
        protocol.CaughtUp(),
        protocol.Activity([protocol.RankSigns(3, 100, 812, 1.5)]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_arrives_as_it_was_sent(message: object) -> None:
    line = protocol.encode(message)
    assert line.count(b"\n") == 1
    assert protocol.decode(line) == message


def test_further_fields_of_a_newer_version_are_ignored() -> None:
    body = {**json.loads(protocol.encode(protocol.Ping(leads=True))), "mood": "good"}
    assert protocol.decode(json.dumps(body).encode()) == protocol.Ping(leads=True)


def test_new_fields_have_defaults_for_an_older_version() -> None:
    body = json.loads(protocol.encode(protocol.Activity([protocol.RankSigns(3, 100)])))
    del body["ranks"][0]["step"]
    assert protocol.decode(json.dumps(body).encode()) == protocol.Activity([protocol.RankSigns(3, 100)])


def test_a_stack_names_its_frames_by_number_and_an_unknown_number_is_refused() -> None:
    frames = [{"function": "f", "path": "p.py", "line": 1}, {"function": "g", "path": "p.py", "line": 2}]
    stack = {"name": "MainThread", "is_main": True, "frames": [1, 0]}
    body = {"type": "RankView", "rank": 0, "host": "", "serial": 1, "time": 1.0, "uncertainty_s": 0.0, "pid": 7,
            "state": "S", "cpu_s": 0.1, "source": "helper", "frames": frames, "threads": [stack]}  # fmt: skip
    view = protocol.decode(json.dumps(body).encode())
    assert [frame.function for frame in view.threads[0].frames] == ["g", "f"]
    stack["frames"] = [2]
    with pytest.raises(protocol.WireError, match="expected Frame"):
        protocol.decode(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"Welcome to gpu01!\n", "expected a JSON object"),
        (b"[1]", "expected a JSON object"),
        (b'{"type": "Hack"}', "expected a message"),
        (b'{"type": "Ping"}', "Ping without 'leads'"),
        (b'{"type": "Ping", "leads": "one"}', "Ping.leads: expected bool"),
        (b'{"type": "Ping", "leads": 1}', "Ping.leads: expected bool"),
        (b'{"type": "Follow", "offsets": 5, "streams": null}', "Follow.offsets: expected dict"),
        (b'{"type": "Follow", "offsets": {"0.out": "x"}, "streams": null}', "Follow.offsets: expected int"),
        (b'{"type": "Refused", "reasons": [{"code": "x"}]}', "Reason without 'message'"),
        (b'{"type": "Refused", "reasons": ["x"]}', "Refused.reasons: expected Reason"),
    ],
)
def test_anything_else_is_refused_with_the_expected_type(line: bytes, complaint: str) -> None:
    with pytest.raises(protocol.WireError, match=complaint.replace("[", r"\[")):
        protocol.decode(line)


def test_constants_that_both_sides_repeat_are_equal() -> None:
    assert spawn.PORT_ENTRY == plan.PORT_ENTRY
    assert protocol.TREE == job.TREE
    assert interfaces.NODE_ENVIRONMENT == plan.NODE_ENVIRONMENT


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@st.composite
def _nearly_messages(draw: st.DrawFn) -> dict[str, Any]:
    """Objects with the type and some of the fields of a message, and anything as their values."""
    cls = draw(st.sampled_from(protocol.TO_AGENT + protocol.FROM_AGENT))
    names = [item.name for item in dataclasses.fields(cls)]
    return {"type": cls.__name__, **{name: draw(_JSON) for name in names if draw(st.booleans())}}


@given(st.one_of(_JSON, _nearly_messages()))
def test_whatever_a_peer_sends_is_a_message_or_a_wire_error(body: object) -> None:
    try:
        message = protocol.decode(json.dumps(body).encode())
    except protocol.WireError:
        return
    assert protocol.decode(protocol.encode(message)) == message


@pytest.mark.parametrize("line", [b"[" * 500_000, b'{"type": []}', b'{"type": "Pong", "time": 1e999}'])
def test_hostile_lines_are_wire_errors(line: bytes) -> None:
    with pytest.raises(protocol.WireError):
        protocol.decode(line)
