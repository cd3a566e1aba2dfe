"""Chunks of a followed log file."""

from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.logs import tail
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import CHUNK, LONGEST_LAST_LINE, PATIENCE_S, LogFollower, cut, last_lines


@pytest.mark.parametrize(
    ("chunk", "flush", "sent"),
    [
        (b"", False, b""),
        (b"one\ntwo\nthr", False, b"one\ntwo\n"),
        (b"thr", False, b""),
        (b"thr", True, b"thr"),
        (b"x" * CHUNK, False, b"x" * CHUNK),
        (b"caf\xc3", True, b"caf"),
        (b"caf\xc3\xa9", True, "café".encode()),
        (b"\xf0\x9f\x98", True, b"\xf0\x9f\x98"),
        (b"ab\xf0\x9f\x98", True, b"ab"),
        (b"ab\x80\x80\x80\x80\x80", True, b"ab\x80\x80\x80\x80\x80"),
        ("é".encode() * (CHUNK // 2) + b"\xc3", False, "é".encode() * (CHUNK // 2)),
    ],
)
def test_text_is_cut_after_a_line_or_between_characters(chunk: bytes, flush: bool, sent: bytes) -> None:
    assert chunk[: cut(chunk, flush)] == sent


def test_an_unfinished_line_is_sent_after_a_delay(tmp_path: Path) -> None:
    log = tmp_path / "0.out"
    log.write_bytes(b"whole\npart")
    now = [100.0]
    follower = LogFollower({"0.out": str(log)}, protocol.Follow({}, None), clock=lambda: now[0])
    first = follower.next(ended=False)
    assert isinstance(first, protocol.Output)
    assert (first.text, first.offset) == ("whole\n", 6)
    assert follower.next(ended=False) is None
    now[0] += 2 * PATIENCE_S
    second = follower.next(ended=False)
    assert isinstance(second, protocol.Output)
    assert (second.text, second.offset) == ("part", 10)
    assert follower.has_caught_up


SECRET = "hunter2-hunter2-"
STARS = "*" * len(SECRET)


class Follow:
    """Follower of one growing log with a secret."""

    def __init__(self, directory: Path, written: str, secret: str = SECRET) -> None:
        self.log = directory / "0.out"
        self.log.write_text(written)
        self.now = 100.0
        follow = protocol.Follow({}, None)
        self.follower = LogFollower({"0.out": str(self.log)}, follow, clock=lambda: self.now, mask=Mask([secret]))

    def shown(self, more: str = "", *, ended: bool = False) -> str:
        """Append `more`, wait until unfinished lines are sent, and return what is."""
        self.log.write_text(self.log.read_text() + more)
        texts = []
        for _ in range(4):
            while (each := self.follower.next(ended=ended)) is not None:
                assert isinstance(each, protocol.Output)
                texts.append(each.text)
            self.now += 2 * PATIENCE_S
        return "".join(texts)


def test_a_secret_that_is_written_in_parts_is_masked_and_nobody_waits_for_its_rest(tmp_path: Path) -> None:
    """Of an unfinished line, the characters in which a secret can begin are not sent yet."""
    held = len(SECRET) - 1
    follow = Follow(tmp_path, f"the key={SECRET[:10]}")
    assert follow.shown() == "the key="[: 18 - held]
    assert follow.follower.has_caught_up
    assert follow.shown(SECRET[10:]) == f"the key={STARS}"[18 - held : 24 - held]
    assert follow.shown(f"; {SECRET[:9]}x\n") == f"the key={STARS}; {SECRET[:9]}x\n"[24 - held :]
    assert follow.shown(SECRET[:3]) == ""
    assert follow.shown(ended=True) == SECRET[:3]


def test_a_secret_across_two_messages_is_masked(tmp_path: Path) -> None:
    for at in (CHUNK - 1, CHUNK - len(SECRET) + 1, CHUNK):
        text = f"{'x' * at}{SECRET}{'y' * CHUNK}{SECRET}"
        assert Follow(tmp_path, text).shown(ended=True) == text.replace(SECRET, STARS)


def test_no_character_is_split_where_a_secret_may_begin(tmp_path: Path) -> None:
    text = "日" * 8  # 24 bytes, of which 9 are sent. With one byte more, the next part begins within a character.
    follow = Follow(tmp_path, text)
    shown = follow.shown()
    for each in "abcdef":
        shown += follow.shown(each)
    assert shown + follow.shown(ended=True) == f"{text}abcdef"


def test_a_long_line_is_shown_beside_a_secret_that_is_longer_than_a_message(tmp_path: Path) -> None:
    follow = Follow(tmp_path, "x" * 3 * CHUNK, "s" * (CHUNK + 10))
    assert len(follow.shown()) == 2 * CHUNK - 9


def test_a_log_that_a_rank_makes_shorter_does_not_keep_its_reader_from_the_end_of_the_output(tmp_path: Path) -> None:
    log = tmp_path / "0.out"
    log.write_text("one\ntwo\n")
    follower = LogFollower({"0.out": str(log)}, protocol.Follow({}, None))
    log.write_text("")
    assert follower.next(ended=False) is None
    assert follower.has_caught_up


def test_last_lines_are_masked_before_they_are_cut(tmp_path: Path) -> None:
    log = tmp_path / "err"
    mask = Mask([SECRET])
    log.write_text(f"{'x' * (LONGEST_LAST_LINE - 5)}{SECRET}\n")
    assert last_lines(str(log), mask=mask) == ["x" * (LONGEST_LAST_LINE - 5) + "*****"]
    log.write_text(f"{SECRET}{'x' * (CHUNK - 8)}\ny\n")
    assert last_lines(str(log), mask=mask)[0][:8] == "*****xxx"


@pytest.mark.parametrize(("lines", "most", "first"), [(0, 9, 9), (1, 9, 8), (2, 9, 6), (9, 9, 0), (9, 6, 4), (9, 1, 9)])
def test_a_reader_of_the_last_lines_begins_with_a_whole_line_of_a_part_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, most: int, first: int
) -> None:
    log = tmp_path / "0.out"
    log.write_text("one\n2\n3\n\n")
    monkeypatch.setattr(tail, "MOST_TAIL", most)
    assert tail.first_of_last(str(log), lines) == first
