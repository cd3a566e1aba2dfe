"""Identity of an image on this node: a directory, or a file with a squashfs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat

from pylaunch.agent.shared import rank_files
from pylaunch.base import untrusted_json
from pylaunch.base.layout import NodeRoot

MAGIC = b"hsqs"
"""First bytes of a squashfs."""

CHUNK = 1 << 20
MOST_KNOWN = 16
"""Images whose hash is remembered."""

MAX_SIZE = 1 << 16


class ImageError(Exception):
    """The image is not here, or is none."""

    def __init__(self, text: str, *, is_missing: bool = False) -> None:
        super().__init__(text)
        self.is_missing = is_missing


def is_file(image: str) -> bool:
    """Return whether `image` is a file, else a directory. Raises ImageError for anything else."""
    try:
        status = os.stat(image)
        if stat.S_ISDIR(status.st_mode):
            os.listdir(image)
            return False
        with open(rank_files.open_regular(image, follow=True), "rb") as source:
            if source.read(len(MAGIC)) != MAGIC:
                raise ImageError(f"image {image} is neither a directory nor a squashfs")
    except FileNotFoundError:
        raise ImageError(f"image {image} does not exist", is_missing=True) from None
    except OSError as error:
        raise ImageError(f"image {image} cannot be read: {error.strerror}") from None
    return True


def digest(image: str, root: NodeRoot) -> str:
    """Return the hash of an image: of the content of a file, of the names, modes and sizes in a directory.

    The hash of a file is remembered until the file changes. Raises ImageError for what cannot be read.
    """
    try:
        return f"sha256:{_of_file(image, root)}" if is_file(image) else f"names and sizes:{_of_directory(image)}"
    except OSError as error:
        raise ImageError(f"image {image}: {error.filename or image} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ImageError(f"image {image} has too many levels of directories") from None


def is_still(image: str, root: NodeRoot, before: str) -> bool:
    """Return whether a file has the hash that it had `before` it was mounted."""
    try:
        return digest(image, root) == before
    except ImageError:
        return False


def _of_file(image: str, root: NodeRoot) -> str:
    status = os.stat(image)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    state = [os.path.realpath(image), status.st_dev, status.st_ino, status.st_size, *times]
    known = _known(root)
    for entry in known:
        if entry[:-1] == state:
            return str(entry[-1])
    hashed = hashlib.sha256()
    with open(rank_files.open_regular(image, follow=True), "rb") as source:
        for chunk in iter(lambda: source.read(CHUNK), b""):
            hashed.update(chunk)
    rest = [entry for entry in known if entry[0] != state[0]][-MOST_KNOWN + 1 :]
    with contextlib.suppress(OSError):  # The next start hashes the file again.
        rank_files.replace(_memory(root), json.dumps({"images": [*rest, [*state, hashed.hexdigest()]]}).encode())
    return hashed.hexdigest()


def _memory(root: NodeRoot) -> str:
    return os.path.join(root.path, "images.json")


def _known(root: NodeRoot) -> list[list[object]]:
    """Return the remembered images; a wrong entry is none."""
    try:
        found = untrusted_json.parse_object(rank_files.read_whole(_memory(root), MAX_SIZE), MAX_SIZE).get("images")
    except (OSError, ValueError):
        return []
    return [entry for entry in found if isinstance(entry, list) and len(entry) == 7] if isinstance(found, list) else []


def _of_directory(image: str) -> str:
    hashed = hashlib.sha256()
    for path, directories, files in os.walk(image, onerror=_fail):
        directories.sort()
        for name in sorted([*files, *directories]):
            full = os.path.join(path, name)
            status = os.lstat(full)
            target = os.readlink(full) if stat.S_ISLNK(status.st_mode) else ""
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            line = f"{os.path.relpath(full, image)}\0{status.st_mode:o}\0{size}\0{target}\n"
            hashed.update(line.encode("utf-8", "surrogateescape"))
    return hashed.hexdigest()


def _fail(error: OSError) -> None:
    """Pass over a directory that is closed to this user, as it is to ranks: its mode is part of the hash."""
    if not isinstance(error, PermissionError):
        raise error
