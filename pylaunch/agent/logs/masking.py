"""Secrets of a run, kept out of everything that leaves its ranks: what is sent, and what stays on the disk.

A secret is masked by as many asterisks as it has bytes, so that offsets into a log mean the same before and after.
"""

from __future__ import annotations

import os
from typing import Iterable, Iterator

from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.text import next_data

SHORTEST = 8
"""Bytes of the shortest secret that is looked for in what ranks write; a shorter one would hit innocent words."""

BLOCK = 4 << 20


class Mask:
    """Hides the values of secrets: each line of a value that has SHORTEST bytes or more."""

    def __init__(self, secrets: Iterable[str]) -> None:
        lines = {line.strip().encode("utf-8", "surrogateescape") for value in secrets for line in value.splitlines()}
        self._needles = sorted((line for line in lines if len(line) >= SHORTEST), key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._needles)

    def hide(self, text: bytes) -> bytes:
        """`text` without the secrets, just as long."""
        for needle in self._needles:
            if needle in text:
                text = text.replace(needle, b"*" * len(needle))
        return text

    def hide_in(self, line: str) -> str:
        """The same for text."""
        return self.hide(line.encode("utf-8", "surrogateescape")).decode("utf-8", "replace") if self else line

    def scrub(self, path: str) -> None:
        """Overwrite the secrets in a file that nobody writes to any more, in place. Holes stay holes."""
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
        """Where secrets are in `block`, and how long each is."""
        for needle in self._needles:
            place = block.find(needle)
            while place >= 0:
                yield place, len(needle)
                place = block.find(needle, place + len(needle))
