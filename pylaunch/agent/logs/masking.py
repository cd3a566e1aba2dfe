"""Mask the secrets of a run in the output of its ranks, both sent and stored.

A secret is replaced by as many asterisks as it has bytes, so that offsets into a log stay valid. A byte is masked if it
is in an occurrence of a secret, so the result does not depend on the blocks in which output is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.text import next_data

SHORTEST = 8
"""Bytes of the shortest secret that is masked; shorter ones would match unrelated output."""

BLOCK = 4 << 20


class Mask:
    """Mask for the values of secrets: each line of a value with at least SHORTEST bytes, also as JSON and Python quote
    it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        lines = {line.strip() for value in secrets for line in value.splitlines()}
        forms = {
            form.encode("utf-8", "surrogateescape")
            for line in lines
            if len(line.encode("utf-8", "surrogateescape")) >= SHORTEST
            for form in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1], repr(line)[1:-1])
        }
        self._needles = sorted(forms)
        self.reach = max(map(len, forms), default=1) - 1
        """Bytes before and after a text that decide with it what is masked in it."""

    def __bool__(self) -> bool:
        return bool(self._needles)

    def hide(self, text: bytes) -> bytes:
        """Return `text` with masked secrets, of the same length."""
        spans = self._spans(text)
        if not spans:
            return text
        hidden = bytearray(text)
        for start, end in spans:
            hidden[start:end] = b"*" * (end - start)
        return bytes(hidden)

    def hide_in(self, line: str) -> str:
        """Return `line` with masked secrets."""
        return self.hide(line.encode("utf-8", "surrogateescape")).decode("utf-8", "replace") if self else line

    def scrub(self, path: str) -> None:
        """Overwrite the secrets in a finished file, in place. Holes stay holes."""
        if not self:
            return
        spans: list[tuple[int, int]] = []
        with open(rank_files.open_regular(path, os.O_RDWR), "r+b", buffering=0) as file:
            end, at = file.seek(0, os.SEEK_END), 0
            while (at := next_data(file.fileno(), at, end)) < end:
                block = os.pread(file.fileno(), BLOCK + self.reach, at)
                _overwrite(file.fileno(), spans)  # After the next block was read: a secret of it may overlap them.
                spans = [(at + first, at + last) for first, last in self._spans(block)]
                at += BLOCK
            _overwrite(file.fileno(), spans)

    def _spans(self, text: bytes) -> list[tuple[int, int]]:
        """Return start and end of the parts of `text` to mask, in order; two of them may overlap."""
        return sorted(span for needle in self._needles for span in _places(needle, text))


def _places(needle: bytes, text: bytes) -> Iterator[tuple[int, int]]:
    start = text.find(needle)
    while start >= 0:
        yield start, start + len(needle)
        start = text.find(needle, start + 1)


def _overwrite(descriptor: int, spans: Iterable[tuple[int, int]]) -> None:
    for start, end in spans:
        os.pwrite(descriptor, b"*" * (end - start), start)
