"""Hash of an image that is a file, by which nodes compare it: remembered until the file changes."""

from __future__ import annotations

import hashlib
import os

from pylaunch.agent.shared import rank_files
from pylaunch.base.layout import NodeRoot

CHUNK = 1 << 20
MAX_SIZE = 1000


def digest(image: str, root: NodeRoot) -> str:
    """Return the hash of the file `image`; of a directory, only that it is one. Raises OSError."""
    status = os.stat(image)
    if os.path.isdir(image):
        return "a directory"
    state = f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    name = hashlib.sha256(os.fsencode(os.path.realpath(image))).hexdigest()
    memory = os.path.join(root.path, "images", name)
    try:
        known, _, remembered = rank_files.read(memory, MAX_SIZE).decode("ascii", "replace").rpartition(" ")
    except OSError:
        known = remembered = ""
    if known == state:
        return remembered
    hashed = hashlib.sha256()
    with open(rank_files.open_regular(image, follow=True), "rb") as source:
        for chunk in iter(lambda: source.read(CHUNK), b""):
            hashed.update(chunk)
    found = f"sha256:{hashed.hexdigest()}"
    os.makedirs(os.path.dirname(memory), exist_ok=True)
    rank_files.replace(memory, f"{state} {found}".encode())
    return found
