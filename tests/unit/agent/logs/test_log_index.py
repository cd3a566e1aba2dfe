"""Index of a log by time, and the dates of earlier output."""

from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.logs import log_files
from pylaunch.agent.logs.log_files import PERIOD_S, LogIndex, read
from pylaunch.agent.logs.tail import LogFollower
from pylaunch.base.layout import RunDirectory


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    (tmp_path / "logs").mkdir()
    return RunDirectory("r1", str(tmp_path))


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now


def written(directory: RunDirectory, clock: Clock, *lines: str) -> Path:
    """Return a log in which each of `lines` is written and indexed at the time that it begins with."""
    log = Path(directory.stream("0.out"))
    marks = LogIndex(directory, {"0.out": str(log), "0.err": directory.stream("0.err")})
    with log.open("w") as rank:
        for line in lines:
            clock.now = float(line.split()[0])
            rank.write(line)
            rank.flush()
            marks.tick(clock.now)
    return log


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of the marks: far in the past, so that the modification time of the log never decides."""
    made = Clock(0.0)
    monkeypatch.setattr(log_files, "time", made)
    return made


def test_earlier_output_is_dated_by_its_marks(directory: RunDirectory, clock: Clock) -> None:
    log = written(directory, clock, "100 a\n", "160 b\n161 c", "220 d\ntwo lines\n")
    with log.open("a") as rank:
        rank.write("not indexed\n")
    follower = LogFollower({"0.out": str(log)}, protocol.Follow({}, None), clock=lambda: 999.0)
    follower.dates = log_files.Dates(directory)
    outputs = []
    while isinstance(output := follower.next(ended=True), protocol.Output):
        outputs.append((output.time, output.text))
    assert outputs == [
        (100.0, "100 a\n"),
        (160.0, "160 b\n"),
        (160.0, "161 c220 d\n"),
        (220.0, "two lines\n"),
        (999.0, "not indexed\n"),
    ]


def test_sizes_are_recorded_once_a_second_and_only_when_they_grow(directory: RunDirectory, clock: Clock) -> None:
    log = Path(directory.stream("0.out"))
    marks = LogIndex(directory, {"0.out": str(log)})
    marks.tick(10.0)
    log.write_text("abc\n")
    marks.tick(10.5)
    assert read(directory.times("0.out")) == []
    clock.now = 1000.0
    marks.tick(10.0 + PERIOD_S)
    clock.now = 2000.0
    marks.tick(20.0)
    assert read(directory.times("0.out")) == [(1000.0, 4)]


def test_a_full_file_of_marks_is_thinned(
    directory: RunDirectory, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MOST", 40)
    log = Path(directory.stream("0.out"))
    marks = LogIndex(directory, {"0.out": str(log)})
    with log.open("ab", buffering=0) as rank:
        for second in range(500):
            clock.now = 1000.0 + second
            rank.write(b"x\n")
            marks.tick(float(second) * PERIOD_S)
            assert len(read(directory.times("0.out"))) < 40
    assert read(directory.times("0.out"))[-1] == (1499.0, 1000)
