"""Size limit of a log, and readers that reach the removed part."""

from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.logs.log_files import PERIOD_S, LogLimit, middle
from pylaunch.agent.logs.tail import NEWEST, LogFollower

MEBIBYTE = 1 << 20
LINE = 64


def numbered(first: int, last: int) -> bytes:
    return b"".join(b"%063d\n" % number for number in range(first, last))


def read(path: Path, follow: protocol.Follow | None = None) -> tuple[list[protocol.Skipped], list[int]]:
    """Return the gaps that a follower skips, and the numbers of the lines that it returns."""
    follower = LogFollower({"0.out": str(path)}, follow or protocol.Follow({}, None))
    skipped, text = [], ""
    while (message := follower.next(ended=True)) is not None:
        if isinstance(message, protocol.Skipped):
            skipped.append(message)
            text += "\n"
        else:
            text += message.text
    return skipped, [int(line) for line in text.split("\n") if len(line) == LINE - 1]


@pytest.mark.parametrize(
    ("size", "limit", "expected"),
    [(100 * MEBIBYTE, 40 * MEBIBYTE, (MEBIBYTE, 80 * MEBIBYTE)), (9 * MEBIBYTE, 4 * MEBIBYTE, (MEBIBYTE, 7 * MEBIBYTE)),
     (1000, 4 * MEBIBYTE, (MEBIBYTE, MEBIBYTE))],
)  # fmt: skip
def test_the_beginning_and_half_of_the_limit_are_kept(size: int, limit: int, expected: tuple[int, int]) -> None:
    assert middle(size, limit) == expected


def test_a_growing_log_stays_within_its_limit_and_kept_bytes_keep_their_offsets(tmp_path: Path) -> None:
    log, limit = tmp_path / "0.out", 4 * MEBIBYTE
    bound = LogLimit([str(log)], limit)
    lines = 3 * MEBIBYTE // LINE
    with log.open("ab", buffering=0) as rank:
        for number in range(6):
            rank.write(numbered(number * lines, (number + 1) * lines))
            bound.tick(number * PERIOD_S)
            assert log.stat().st_blocks * 512 <= limit + 4096
    assert log.stat().st_size == 6 * lines * LINE
    skipped, numbers = read(log)
    assert len(skipped) == 1
    assert (skipped[0].start, skipped[0].path) == (MEBIBYTE, str(log))
    gone = (skipped[0].offset - skipped[0].start) // LINE
    assert numbers == [*range(MEBIBYTE // LINE), *range(MEBIBYTE // LINE + gone, 6 * lines)]
    assert gone * LINE >= 10 * MEBIBYTE


def test_sizes_are_checked_once_a_period_and_never_without_a_limit(tmp_path: Path) -> None:
    log = tmp_path / "0.out"
    bound = LogLimit([str(log), str(tmp_path / "not there")], 4 * MEBIBYTE)
    bound.tick(10.0)
    assert bound.deadline() == 10.0 + PERIOD_S
    log.write_bytes(numbered(0, 8 * MEBIBYTE // LINE))
    bound.tick(10.5)
    assert log.stat().st_blocks * 512 >= 8 * MEBIBYTE
    bound.tick(11.0)
    assert log.stat().st_blocks * 512 <= 4 * MEBIBYTE
    assert LogLimit([str(log)], 0).deadline() is None


def test_a_lagging_reader_continues_with_the_newest_output(tmp_path: Path) -> None:
    log, lines = tmp_path / "0.out", 2 * MEBIBYTE // LINE
    log.write_bytes(numbered(0, lines))
    skipped, numbers = read(log, protocol.Follow({}, None, lag=MEBIBYTE))
    assert [(each.start, each.offset % LINE) for each in skipped] == [(0, 0)]
    assert numbers == list(range(skipped[0].offset // LINE, lines))
    assert NEWEST - LINE <= len(numbers) * LINE <= NEWEST
    assert read(log, protocol.Follow({}, None, lag=4 * MEBIBYTE)) == ([], list(range(lines)))
