"""Dumps of torch's flight recorder, as gloo and NCCL write them, and files that only look like dumps."""

import contextlib
import json
import os
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.protocol.examination import Frame, ProcessGroup
from pylaunch.verdict.hangs import plain_pickle
from pylaunch.verdict.hangs.flight_recorder import MOST_MEMBERS, DumpRefusedError, read_json, read_pickle
from tests.unit.verdict.hangs.views import CASES

DUMP = CASES / "dumps" / "other_operation" / "1"

NCCL: dict[str, Any] = {
    "version": "2.10",
    "pg_config": {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"},
        "3": {"name": "3", "desc": "tp", "ranks": "[1]"},
    },
    "entries": [
        {
            "process_group": ("0", "default_pg"), "collective_seq_id": number, "profiling_name": "nccl:all_reduce",
            "input_sizes": [[2, 3]], "output_sizes": [[2, 3]], "input_dtypes": ["Float"], "state": state,
            "retired": True, "is_p2p": False, "time_created_ns": 5_000_000_000,
            "frames": [{"name": "f", "filename": "a.py", "line": 3}],
        }
        for number, state in ((1, "completed"), (2, "started"))
    ],
}  # fmt: skip


def test_a_dump_of_gloo_has_the_calls_and_their_places() -> None:
    read = read_pickle(DUMP.read_bytes())
    last = read.collectives[-1]
    assert (last.group, last.sequence, last.operation, last.is_retired) == ("0", 4, "broadcast", False)
    assert (last.input_sizes, last.dtypes) == (((4,),), ("Float",))
    assert last.call_site[2].path == "/opt/job/train.py"
    assert [each.is_retired for each in read.collectives] == [True, True, True, False]


def test_the_useless_group_table_of_gloo_is_not_read() -> None:
    assert read_pickle(DUMP.read_bytes()).groups == (ProcessGroup("0", "default_pg", ()),)


def test_a_dump_of_nccl_has_its_groups_and_a_timed_out_call_is_not_over() -> None:
    read = read_pickle(pickle.dumps(NCCL), now_ns=7_000_000_000)
    assert read.groups == (ProcessGroup("0", "default_pg", (0, 1)), ProcessGroup("3", "tp", (1,)))
    assert [each.is_retired for each in read.collectives] == [True, False]
    assert read.collectives[0].age_s == 2.0
    assert read.collectives[0].call_site == (Frame("f", "a.py", 3),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol_and_json_give_the_same(protocol: int) -> None:
    assert read_pickle(pickle.dumps(NCCL, protocol)) == read_json(json.dumps(NCCL))


def test_point_to_point_calls_have_no_number() -> None:
    entry = {**NCCL["entries"][0], "is_p2p": True, "collective_seq_id": 9, "profiling_name": "nccl:send 0->1"}
    [call] = read_json(json.dumps({"entries": [entry]})).collectives
    assert (call.sequence, call.is_p2p) == (0, True)


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("/nonexistent/pylaunch",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_names_code_is_refused(protocol: int) -> None:
    with pytest.raises(DumpRefusedError, match="not allowed in a flight recorder dump"):
        read_pickle(pickle.dumps({"entries": [Hostile()]}, protocol))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x02}q\x00",
        b"\x80\x02]]e.",
        b"\x80\x02h\x07.",
        b"\x80\x02}K\x01s.",
        b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"Ns.",  # a tuple so deep that its hash would be a crash
        b"\x80\x02})" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(60)) + b"Ns.",  # a hash of 2^60 steps
        b"\x80\x02]" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(60)) + b".",  # a value of 2^60 nodes
        b"\x80\x02" + b"]q\x00h\x00a.",  # a list that contains itself
        b"\x80\x02\x8a\x09" + b"\x7f" * 9 + b".",
        b"\x80\x02X" + struct.pack("<I", 1 << 31) + b"abc.",
        b"\x80\x02]K\x01s.",
        b"garbage",
    ],
)
def test_a_damaged_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(plain_pickle.PickleRefusedError):
        plain_pickle.load(data)


def test_a_pickle_of_too_many_values_is_refused_before_it_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MOST_NODES", 1000)
    with pytest.raises(plain_pickle.PickleRefusedError, match="more than 1000 values"):
        plain_pickle.load(b"\x80\x02" + b"]" * 2000)  # without an end


def test_ranks_of_groups_that_share_one_text_take_little_memory() -> None:
    ranks = str(list(range(60_000)))
    config = {str(number): {"name": str(number), "desc": "", "ranks": ranks} for number in range(4000)}
    read = read_pickle(pickle.dumps({"pg_config": config, "entries": []}))
    assert len(read.groups) == 4000
    assert sum(len(group.ranks) for group in read.groups) <= MOST_MEMBERS


def test_a_large_memo_index_takes_no_memory() -> None:
    assert plain_pickle.load(b"\x80\x02]r\xff\xff\xff\x7f.") == []


@pytest.mark.parametrize("text", ["[]", "1", "{", "[" * 100_000, '"' + "x" * 100])
def test_json_that_is_no_dump_is_refused(text: str) -> None:
    with pytest.raises(DumpRefusedError):
        read_json(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_survive(value: Any, protocol: int) -> None:
    assert plain_pickle.load(pickle.dumps(value, protocol)) == value


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_plain(data: bytes) -> None:
    with contextlib.suppress(plain_pickle.PickleRefusedError):
        plain_pickle.load(data)


@given(st.dictionaries(st.sampled_from(sorted(NCCL["entries"][0])), VALUES))
def test_fields_of_any_type_are_read_or_left_out(fields: dict[str, Any]) -> None:
    [call] = read_json(json.dumps({"entries": [{**NCCL["entries"][0], **fields}], "pg_config": fields})).collectives
    assert call.sequence >= 0
