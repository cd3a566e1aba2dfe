"""Lines in the blocks of bytes of a log: their beginnings, their texts, and those that have a literal. Pure."""

from collections.abc import Iterable, Iterator

from pylaunch.verdict.logs.line import LONGEST

BLOCK = 1 << 20
"""Bytes of a block."""

PER_BLOCK = 1024
"""Lines with the same anchor that are read in a block."""

PER_FORM = 512
"""Lines of the form that are read in a block, the first and the last ones."""


def after_bar(line: str) -> str:
    """Return the text after the last carriage return of a progress bar."""
    return line.rstrip("\r").rpartition("\r")[2]


def line_at(held: bytes, start: int) -> tuple[str, int]:
    """Return the text of the line at `start`, bounded, and the position of the next one."""
    after = held.find(b"\n", start)
    end = len(held) if after < 0 else after
    return held[start : min(start + LONGEST, end)].split(b"\r", 1)[0].decode("utf-8", "replace"), end + 1


def lines_from(held: bytes, start: int, most: int, count: int) -> Iterator[str]:
    """Yield the line at `start` and those after it, within `most` bytes."""
    end = min(len(held), start + most)
    while start < end and count > 0:
        text, start = line_at(held, start)
        count -= 1
        yield text


def first_and_last(lines: list[int]) -> list[int]:
    """Return the first and the last lines of the form in a block, as many as are read."""
    half = PER_FORM // 2
    return lines if len(lines) <= PER_FORM else lines[:half] + lines[-half:]


def lines_with(held: bytes, end: int, anchor: bytes) -> Iterator[int]:
    """Yield the beginnings of the lines in `held[:end]` that have an anchor, at most PER_BLOCK."""
    at = held.find(anchor, 0, end)
    for _ in range(PER_BLOCK):
        if at < 0:
            return
        yield line_start(held, at)
        after = held.find(b"\n", at)
        at = held.find(anchor, max(after, at + 1), end) if after >= 0 else -1


def line_start(held: bytes, at: int) -> int:
    """Return the position of the line around `at`; a progress bar's carriage return begins a line, too."""
    return max(held.rfind(b"\n", 0, at), held.rfind(b"\r", max(0, at - LONGEST), at)) + 1


def sized(blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for at in range(0, len(block), BLOCK):
            yield block[at : at + BLOCK]
