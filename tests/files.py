"""Read directories in which other processes write, without a race between listing and reading."""

import os
from pathlib import Path


def content_below(root: Path) -> dict[Path, bytes]:
    """Return the content of each regular file below `root`; a file that goes meanwhile is passed over."""
    found = {}
    for directory, _, names in os.walk(root):
        for path in (Path(directory, name) for name in names):
            try:
                if path.is_file():
                    found[path] = path.read_bytes()
            except FileNotFoundError:
                continue
    return found
