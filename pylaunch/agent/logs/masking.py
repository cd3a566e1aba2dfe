"""Mask the secrets of a run in the output of its ranks, both sent and stored.

A secret is replaced by as many asterisks as it has bytes, so that offsets into a log stay valid.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.text import next_data

SHORTEST = 8
"""Bytes of the shortest secret that is masked; shorter ones would match unrelated output."""

BLOCK = 4 << 20


class Mask:
    """Mask for the values of secrets: each line of a value with at least SHORTEST bytes."""

    def __init__(self, secrets: Iterable[str]) -> None:
        lines = {line.strip().encode("utf-8", "surrogateescape") for value in secrets for line in value.splitlines()}
        self._needles = sorted((line for line in lines if len(line) >= SHORTEST), key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._needles)

    def hide(self, text: bytes) -> bytes:
        """Return `text` with masked secrets, of the same length."""
        for needle in self._needles:
            if needle in text:
                text = text.replace(needle, b"*" * len(needle))
        return text

    def hide_in(self, line: str) -> str:
        """Return `line` with masked secrets."""
        return self.hide(line.encode("utf-8", "surrogateescape")).decode("utf-8", "replace") if self else line

    def scrub(self, path: str) -> None:
        """Overwrite the secrets in a finished file, in place. Holes stay holes."""
        if not self:
            return
        overlap = len(self._needles[0]) - 1
        with open(rank_files.open_regular(path, os.O_RDWR), "r+b", buffering=0) as file:
            end, at = file.seek(0, os.SEEK_END), 0
            while (at := next_data(file.fileno(), at, end)) < end:
                block = os.pread(file.fileno(), BLOCK + overlap, at)
                for place, length in self._places(block):
                    os.pwrite(file.fileno(), b"*" * length, at + place)
                at += BLOCK

    def _places(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Yield offset and length of each secret in `block`."""
        for needle in self._needles:
            place = block.find(needle)
            while place >= 0:
                yield place, len(needle)
                place = block.find(needle, place + len(needle))
