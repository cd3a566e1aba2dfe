"""Files that have the text that the code makes of them."""

import os
from pathlib import Path


def golden(file: Path, text: str) -> str:
    """Return the content of `file`; with UPDATE_GOLDEN=1, write `text` first."""
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return file.read_text()
