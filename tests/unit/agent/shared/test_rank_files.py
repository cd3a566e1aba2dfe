"""Reads of files that a rank can replace or write return at once and use bounded memory."""

import json
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch import protocol
from pylaunch.agent.evidence import rank_report
from pylaunch.agent.logs import log_files, tail
from pylaunch.agent.logs.log_files import LogLimit
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.run import environment
from pylaunch.agent.shared import rank_files, record
from pylaunch.base.layout import RunDirectory
from pylaunch.runtime import progress
from tests.agent.controller import task

DEEP = b'{"message":' * 100_000 + b"1" + b"}" * 100_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["message", "extraInfo", "py_callstack"]), inner),
)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def dangling_link(path: Path) -> None:
    path.symlink_to("nothing")


def listening_socket(path: Path) -> None:
    # A short path, because sun_path holds 108 bytes.
    directory = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{directory}/{path.name}")
    os.close(directory)


INSTEAD = [fifo, link_to_zeros, dangling_link, listening_socket, Path.mkdir]
everything_else = pytest.mark.parametrize("put", INSTEAD, ids=lambda put: put.__name__)


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory("r1", str(tmp_path / "r1"))
    for name in ("logs", "times", "ranks"):
        Path(directory.file(name)).mkdir(parents=True)
    return directory


@everything_else
def test_reading_or_writing_anything_but_a_regular_file_fails_at_once(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    put(path)
    for act in (
        lambda: rank_files.read(str(path), 10),
        lambda: rank_files.append(str(path), b"x"),
        lambda: rank_files.open_regular(str(path), os.O_RDWR),
    ):
        with pytest.raises(OSError, match=r"regular file|directory"):
            act()
    assert rank_files.size(str(path)) == 0


@everything_else
def test_no_reader_of_a_run_directory_waits_or_fails_whatever_is_there(
    put: Callable[[Path], None], directory: RunDirectory
) -> None:
    for name in ("events.jsonl", "task.json", "outcome.json", "agent.lock"):
        put(Path(directory.file(name)))
    for path in (directory.of_rank(0, "error.json"), directory.of_rank(0, "step"), directory.times("0.out")):
        put(Path(path))
    put(Path(directory.stream("0.out")))
    assert (record.read_events(directory), record.read_task(directory), record.read_outcome(directory)) == (
        [],
        None,
        None,
    )
    assert (rank_report.error(directory, 0, tail.NOTHING_SECRET), rank_report.last_step(directory, 0)) == ("", None)
    streams = {"0.out": directory.stream("0.out")}
    assert tail.last_lines(*streams.values()) == []
    assert tail.LogFollower(streams, protocol.Follow({}, None, tail=5)).next(ended=True) is None
    log_files.LogIndex(directory, streams).end()
    LogLimit(streams.values(), 1).tick(1.0)
    with pytest.raises(OSError, match=r"regular file|directory"):
        Mask(["a long secret"]).scrub(streams["0.out"])
    record.Record(directory).append(protocol.Stopping("done", 1.0))
    rank_report.make_room(directory)
    assert not list(Path(directory.file("ranks")).iterdir())


def test_a_log_that_is_replaced_while_it_is_followed_ends_only_its_stream(directory: RunDirectory) -> None:
    paths = {name: directory.stream(name) for name in ("0.out", "1.out")}
    for path in paths.values():
        Path(path).write_text("line\n")
    follower = tail.LogFollower(paths, protocol.Follow({}, None))
    Path(paths["0.out"]).chmod(0)
    Path(paths["0.out"]).unlink()
    Path(paths["0.out"]).symlink_to(paths["1.out"])
    output = [follower.next(ended=True) for _ in range(3)]
    assert [each.stream for each in output if isinstance(each, protocol.Output)] == ["1.out"]


def test_a_file_that_is_read_whole_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 11)
    assert rank_files.read(str(tmp_path / "file"), 10) == b"x" * 10
    with pytest.raises(OSError, match="longer than 10 bytes"):
        rank_files.read_whole(str(tmp_path / "file"), 10)


def test_a_file_is_replaced_even_if_its_temporary_path_exists(tmp_path: Path) -> None:
    (tmp_path / "file.new").symlink_to(tmp_path / "other")
    rank_files.replace(str(tmp_path / "file"), b"content")
    assert ((tmp_path / "file").read_bytes(), (tmp_path / "other").exists()) == (b"content", False)


@given(content=JSON.map(lambda value: json.dumps(value).encode()) | st.binary())
def test_any_error_file_is_a_short_text(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = RunDirectory("r1", str(tmp_path_factory.getbasetemp() / "error-files"))
    Path(directory.file("ranks")).mkdir(parents=True, exist_ok=True)
    Path(directory.of_rank(0, "error.json")).write_bytes(content)
    assert len(rank_report.error(directory, 0, tail.NOTHING_SECRET)) < 2 * rank_report.MAX_TEXT + 100


@given(content=st.binary(max_size=64))
def test_any_step_file_is_a_finite_mark_or_none(content: bytes) -> None:
    mark = progress.decoded(content)
    assert mark is None or json.dumps([mark.step, mark.time], allow_nan=False)


@pytest.mark.parametrize("mark", [((1 << 63) - 1, 1.0, 0), (7, 1e300, 0), (7, 1.0, (1 << 63) - 1)])
def test_a_mark_that_no_message_carries_is_none(mark: tuple[int, float, int], tmp_path: Path) -> None:
    directory = RunDirectory("r1", str(tmp_path))
    Path(directory.file("ranks")).mkdir()
    step, when, total = mark
    Path(directory.of_rank(0, "step")).write_bytes(struct.pack("<qdqq", step, when, total, step))
    assert rank_report.last_mark(directory, 0) is None


@given(content=st.lists(st.tuples(st.floats(), st.integers(-(1 << 63), (1 << 63) - 1))))
def test_any_index_of_a_log_dates_its_output(
    content: list[tuple[float, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = RunDirectory("r1", str(tmp_path_factory.getbasetemp() / "index-files"))
    for name in ("logs", "times"):
        Path(directory.file(name)).mkdir(parents=True, exist_ok=True)
    path = Path(directory.stream("0.out"))
    path.write_text("one\ntwo\n")
    os.utime(path, (2e9, 2e9))
    Path(directory.times("0.out")).write_bytes(b"".join(struct.pack("<dq", *mark) for mark in content))
    follower = tail.LogFollower({"0.out": str(path)}, protocol.Follow({}, None))
    follower.dates = log_files.Dates(directory)
    output = follower.next(ended=True)
    assert output is None or isinstance(output, protocol.Output)


@given(lines=st.lists(st.binary() | st.sampled_from([DEEP, b"[" * 5000, protocol.encode(protocol.Stopping("x", 1.0))])))
def test_any_record_is_read_as_events_of_a_supervisor(
    lines: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = RunDirectory("r1", str(tmp_path_factory.getbasetemp() / "records"))
    Path(directory.path).mkdir(exist_ok=True)
    for name in ("events.jsonl", "task.json", "outcome.json"):
        Path(directory.file(name)).write_bytes(b"\n".join(lines))
    assert all(isinstance(event, record.EVENTS) for event in record.read_events(directory))
    record.read_task(directory)
    record.read_outcome(directory)


def test_forged_events_and_tasks_of_other_runs_are_ignored(directory: RunDirectory) -> None:
    forged = protocol.Output("/etc/passwd", 4, "text", 1.0)
    Path(directory.file("events.jsonl")).write_bytes(protocol.encode(forged) + protocol.encode(protocol.Finished([])))
    Path(directory.file("task.json")).write_bytes(protocol.encode(protocol.Prepare(task(Path("/"), run="r2"))))
    assert record.read_events(directory) == [protocol.Finished([])]
    assert record.read_task(directory) is None


@pytest.mark.parametrize("content", [DEEP, b"[]", b'{"variables": {"A": 1}}', b"x" * (2 << 20)])
def test_an_invalid_environment_file_is_an_error_with_its_path(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "env.json").write_bytes(content)
    with pytest.raises(environment.RefusedError, match=r"env\.json"):
        environment.completed(task(Path("/"), env_file=str(tmp_path / "env.json")))
