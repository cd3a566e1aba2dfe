"""Files that have the text that the code makes of them."""

import os
from pathlib import Path


def golden(file: Path, text: str) -> str:
    """Return the content of `file`; with UPDATE_GOLDEN=1, write `text` first."""
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return file.read_text()


def refilled(page: Path | str, start: str, rows: str, end: str = "\n\n") -> str:
    """Return the text of a page with `rows` between `start` and `end`; the rest of it is written by hand."""
    text = page if isinstance(page, str) else page.read_text()
    before, found, after = text.partition(start)
    assert found, f"no {start!r}"
    return before + start + rows + (after[after.index(end) + 1 :] if end in after else "")
