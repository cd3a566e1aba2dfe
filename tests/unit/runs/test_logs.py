"""Logs of a run: copies stay in the directory that was named, and a text selects lines."""

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.runs.events import LinesWritten
from pylaunch.runs.logs import Collector, read_each
from pylaunch.transport.interrupts import InterruptSource


def collector_of(directory: Path) -> Collector:
    return Collector(directory, lambda _: None)


def test_output_is_collected_by_host_and_stream_and_replaces_earlier_copies(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "0.out").write_text("of an earlier run\n")
    collector = collector_of(tmp_path)
    collector.take(LinesWritten("n1", "0.out", "a\n", 1.0))
    collector.take(LinesWritten("n1", "0.out", "b\udcff\n", 1.0))
    assert (tmp_path / "n1" / "0.out").read_bytes() == b"a\nb\xff\n"


@pytest.mark.parametrize("names", [("..", "x"), ("n1", ".."), ("n1", "/etc/x"), ("n1", "a/b"), ("/", "x"), ("n1", "")])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="is not a file name"):
        collector_of(tmp_path / "logs").take(LinesWritten(*names, "x\n", 1.0))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_links_and_devices_are_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    logs = tmp_path / "logs"
    (logs / "n1").mkdir(parents=True)
    (logs / "n1" / "0.out").symlink_to(outside / "precious")
    os.mkfifo(logs / "n1" / "1.out")
    (logs / "n2").symlink_to(outside)
    for host, stream in (("n1", "0.out"), ("n1", "1.out"), ("n2", "precious")):
        with pytest.raises(UsageError, match="cannot be written"):
            collector_of(logs).take(LinesWritten(host, stream, "x\n", 1.0))
    assert (outside / "precious").read_text() == "kept"


def test_a_log_that_cannot_be_read_ends_the_ones_after_it() -> None:
    read: list[str] = []

    def fails(_: InterruptSource) -> None:
        read.append("first")
        raise UsageError("no room")

    with pytest.raises(UsageError, match="no room"):
        read_each([fails, *[lambda _: read.append("later")] * 3], lambda *_: nullcontext(), at_once=False)
    assert read.count("later") < 3
