"""Identity of an image on this node: a directory, or a file with a squashfs, which a SIF has, too."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import stat
from typing import BinaryIO

from pylaunch.agent.containers import sif
from pylaunch.agent.shared import rank_files
from pylaunch.base import untrusted_json
from pylaunch.base.layout import NodeRoot

MAGIC = b"hsqs"
"""First bytes of a squashfs."""

TAR, TAR_AT = b"ustar", 257
CHUNK = 1 << 20
MOST_KNOWN = 16
"""Images whose hash is remembered."""

MAX_SIZE = 1 << 16


class ImageError(Exception):
    """The image is not here, or is none. `hint` is the next step, "" for none."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


def squashfs_offset(image: str) -> int | None:
    """Return the place of the squashfs in the file `image`; None for a directory. Raises ImageError for others."""
    try:
        if stat.S_ISDIR(os.stat(image).st_mode):
            os.listdir(image)
            return None
        with open(rank_files.open_regular(image, follow=True), "rb") as source:
            place = _place(image, source)
            source.seek(place)
            if source.read(len(MAGIC)) == MAGIC:
                return place
    except FileNotFoundError:
        raise ImageError(f"image {image} does not exist", f"pylaunch push IMAGE {shlex.quote(image)}") from None
    except OSError as error:
        raise ImageError(f"image {image} cannot be read: {error.strerror}") from None
    except sif.SifError as error:
        raise ImageError(f"image {image} is a SIF that cannot be mounted: {error}", error.hint) from None
    raise ImageError(
        f"image {image} is neither a directory nor a squashfs, and contains none", "pylaunch help containers"
    )


def _place(image: str, source: BinaryIO) -> int:
    """Return where a squashfs has to be. Raises SifError or ImageError."""
    start = source.read(TAR_AT + len(TAR))
    if start[sif.MAGIC_AT :].startswith(sif.MAGIC):
        return sif.squashfs_offset(source)
    if start[TAR_AT:] == TAR:
        hint = f"apptainer build image.sif docker-archive:{shlex.quote(image)}, then --container the path of that"
        raise ImageError(f"image {image} is a tar archive", hint)
    return 0


def digest(image: str, root: NodeRoot) -> str:
    """Return the hash of an image: of the content of a file, of the names, modes and sizes in a directory.

    The hash of a file is remembered until the file changes. Raises ImageError for what cannot be read.
    """
    try:
        if squashfs_offset(image) is None:
            return f"names and sizes:{_of_directory(image)}"
        return f"sha256:{_of_file(image, root)}"
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
