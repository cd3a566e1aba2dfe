"""Files that readers find with their old content or with the new one, never with a part of it."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replace `path` by a file with `content`.

    Raises OSError, as for a full disk; then `path` is as before, and nothing is left beside it.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
