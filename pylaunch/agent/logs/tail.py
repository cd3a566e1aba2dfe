"""Follow the log files of a run: whole lines, from any offset, at the pace of the reader."""

from __future__ import annotations

import codecs
import os
import time
from typing import Callable, Optional, Tuple

from pylaunch import protocol
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.record import note
from pylaunch.agent.shared.text import next_data
from pylaunch.base.dataclass import dataclass

Dates = Callable[[str, int], Optional[Tuple[float, int]]]
"""Stream name and offset → time of the output at that offset and the end of that output; None if unknown."""

CHUNK = 64 * 1024
"""Longest text in one Output, and the longest line that is sent whole."""

PATIENCE_S = 0.3
"""Time after which an unfinished line is sent."""

NOTHING_SECRET = Mask(())

NEWEST = 256 * 1024
"""Bytes at the end of a log with which a lagging reader continues."""

MOST_TAIL = 4 << 20
"""Bytes in which the lines that a follower begins with are looked for."""

LAST_LINES = 20
LONGEST_LAST_LINE = 2000


def cut(chunk: bytes, flush: bool) -> int:
    """Return the number of bytes of `chunk` to send: up to its last newline, or all if `flush` or if it is full.

    A character is split only if it is invalid or the file ends within it.
    """
    whole = chunk.rfind(b"\n") + 1
    if whole or not (flush or len(chunk) >= CHUNK):
        return whole
    return len(chunk) - _unfinished(chunk) or len(chunk)


def _unfinished(chunk: bytes) -> int:
    """Return the length of an incomplete UTF-8 character at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(chunk[-4:])
    return len(decoder.getstate()[0])


def _up_to(text: bytes, length: int) -> bytes:
    """Return the whole lines in the first `length` bytes of `text`, at least one line."""
    whole = text.rfind(b"\n", 0, length) + 1 or text.find(b"\n") + 1
    return text if length >= len(text) else text[: whole or len(text)]


@dataclass
class _Stream:
    name: str
    path: str
    offset: int
    partial_since: float | None = None
    kept: int = 0
    """Bytes after `offset` in which a secret may begin: they are sent once more output or the end has come."""


class LogFollower:
    """Position of one reader in the log files that it follows; `paths`: stream name → path."""

    def __init__(
        self,
        paths: dict[str, str],
        follow: protocol.Follow,
        clock: Callable[[], float] = time.time,
        mask: Mask = NOTHING_SECRET,
    ) -> None:
        names = paths if follow.streams is None else [name for name in paths if name in follow.streams]
        begin = {name: 0 if follow.tail is None else first_of_last(paths[name], follow.tail) for name in names}
        begin.update((name, max(0, offset)) for name, offset in follow.offsets.items())
        self._streams = [_Stream(name, paths[name], begin[name]) for name in names]
        self._past = {stream.name: rank_files.size(stream.path) for stream in self._streams}
        self._clock = clock
        self._mask = mask
        self.dates: Dates = lambda name, offset: None
        """Dates of output written before following began; undated output gets the time of reading."""

        self._lag = follow.lag

    @property
    def has_caught_up(self) -> bool:
        """True once all output from before following began has been returned."""
        return all(stream.offset + stream.kept >= self._past[stream.name] for stream in self._streams)

    def next(self, *, ended: bool) -> protocol.Output | protocol.Skipped | None:
        """Return the next output or gap; None if there is none now. `ended`: no file will grow any more."""
        for _ in range(len(self._streams)):
            stream = self._streams.pop(0)
            self._streams.append(stream)
            start = stream.offset
            try:
                text = self._read(stream, ended)
            except OSError as error:
                reason = f"{stream.path}: {error.strerror}"
                note(f"output cannot be followed any more: {reason}")
                self._streams.remove(stream)
                return protocol.Skipped(stream.name, start, start, stream.path, reason)
            if not text and stream.offset > start:
                return protocol.Skipped(stream.name, start, stream.offset, stream.path)
            if text:
                dated = self.dates(stream.name, start) if start < self._past[stream.name] else None
                if dated is not None:
                    text = _up_to(text, dated[1] - start)
                    stream.offset = start + len(text)
                moment = self._clock() if dated is None else dated[0]
                return protocol.Output(stream.name, stream.offset, text.decode("utf-8", "replace"), moment)
        return None

    def _read(self, stream: _Stream, ended: bool) -> bytes:
        """Return the next bytes, masked; b"", with a larger offset, at a hole or if the reader lags too far."""
        size = rank_files.size(stream.path)
        if size <= stream.offset:
            self._past[stream.name] = min(self._past[stream.name], size)  # What a rank has cut off cannot arrive.
            return b""
        with open(rank_files.open_regular(stream.path), "rb", buffering=0) as source:
            target = self._skip_to(source.fileno(), stream.offset, size)
            if target > stream.offset:
                stream.offset, stream.partial_since = target, None
                return b""
            hole = os.lseek(source.fileno(), stream.offset, os.SEEK_HOLE)
            before = min(self._mask.reach, stream.offset)
            begin, end = stream.offset - before, min(stream.offset + CHUNK + self._mask.reach, hole)
            window = os.pread(source.fileno(), end - begin, begin)
        chunk = window[before : before + CHUNK]
        waited = stream.partial_since is not None and self._clock() - stream.partial_since >= PATIENCE_S
        is_last = ended or hole < size
        length = cut(chunk, waited or is_last)
        stream.kept = 0
        if length and not is_last and not chunk.endswith(b"\n", 0, length):
            # A secret may begin in the last bytes of the window, and continue after it.
            known = max(0, min(length, len(window) - before - self._mask.reach))
            shown = known - (_unfinished(chunk[:known]) if known < length else 0)
            length, stream.kept = shown, 0 if shown else length
        text = self._mask.hide(window)[before : before + length]
        if text:
            stream.offset += length
            stream.partial_since = None
        elif stream.partial_since is None:
            stream.partial_since = self._clock()
        return text

    def _skip_to(self, source: int, offset: int, size: int) -> int:
        """Return the offset to continue at: the start of a line, or `offset` if nothing is skipped."""
        start = offset
        if self._lag is not None and size - offset > self._lag:
            start = size - min(NEWEST, self._lag)
        data = next_data(source, start, size)
        if data == offset:
            return offset
        return data + os.pread(source, CHUNK, data).find(b"\n") + 1


def first_of_last(path: str, lines: int) -> int:
    """Return the offset of the last `lines` lines of the file, or of as many as MOST_TAIL has. Raises OSError."""
    size = rank_files.size(path)
    if lines <= 0 or not size:
        return size
    begin = max(0, size - MOST_TAIL)
    with open(rank_files.open_regular(path), "rb", buffering=0) as source:
        text = os.pread(source.fileno(), size - begin, begin)
    at = len(text) - text.endswith(b"\n")
    while lines and at >= 0:
        at = text.rfind(b"\n", 0, at)
        lines -= 1
    if at < 0 < begin:
        at = text.find(b"\n")
    return begin + at + 1


def last_lines(*paths: str, count: int = LAST_LINES, mask: Mask = NOTHING_SECRET, within: int = CHUNK) -> list[str]:
    """Return the last `count` lines of the first of these files that has any, masked before long ones are cut.

    They are in the last `within` bytes.
    """
    for path in paths:
        try:
            with open(rank_files.open_regular(path), "rb") as source:
                begin = max(0, os.fstat(source.fileno()).st_size - within)
                before = min(begin, mask.reach)
                source.seek(begin - before)
                lines = mask.hide(source.read(before + within))[before:].decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        lines = [line.rstrip() for line in lines if line.strip()]
        if lines:
            return [line[:LONGEST_LAST_LINE] for line in lines[-count:]]
    return []
