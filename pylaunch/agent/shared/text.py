"""Reading what others have written."""

from __future__ import annotations

import os


def text_of(path: str) -> str:
    """A file as text; bytes that are none do not stop us."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def next_data(descriptor: int, at: int, end: int) -> int:
    """The first byte of a file from `at` on that is in no hole; `end`, which is its size, when there is none."""
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError:  # ENXIO: nothing but a hole from here on, or already at the end.
        return end
