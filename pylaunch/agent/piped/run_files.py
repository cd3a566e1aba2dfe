"""List and send files below the working directory of a run: checkpoints and artefacts.

The controller sends this program, so that files also come from nodes whose agent is gone. It reads as the account of
the connection, follows links and reads regular files only.
"""

from __future__ import annotations

import functools
import glob
import json
import os
import stat
import sys
from typing import Any, BinaryIO

from pylaunch.base.layout import AgentError, open_root

TREE = "@tree"
CHUNK = 1 << 20


def directory_of(root: str, run: str, workdir: str) -> str:
    """Return the working directory of the run on this node. Raises AgentError."""
    first, slash, rest = workdir.partition("/")
    return workdir if first != TREE else open_root(root, make=False).tree(run) + slash + rest


def list_files(place: tuple[str, str, str], patterns: list[str], most: int) -> None:
    """Print the files that match `patterns`, at most `most`; `place` is the node root, the run and its workdir."""
    print(json.dumps(_listed(place, patterns, most)))


def _listed(place: tuple[str, str, str], patterns: list[str], most: int) -> dict[str, Any]:
    try:
        directory = directory_of(*place)
    except AgentError as error:
        return {"error": str(error)}
    if not os.path.isdir(directory):
        return {"error": "no such directory: " + directory}
    found: dict[str, Any] = {}
    for pattern in patterns:
        for path in glob.iglob(os.path.join(glob.escape(directory), pattern), recursive=True):
            if len(found) >= most:
                return {"files": list(found.values()), "is_cut": True}
            name = os.path.relpath(path, directory)
            try:
                status = os.stat(path)
                if name in found or not stat.S_ISREG(status.st_mode) or _is_in_cycle(directory, os.path.dirname(name)):
                    continue
            except OSError:
                continue  # It is gone, or may not be read: then `send_files` has the reason.
            found[name] = {
                "path": name,
                "size": status.st_size,
                "mtime_ns": status.st_mtime_ns,
                "inode": status.st_ino,
            }
    return {"files": list(found.values()), "is_cut": False}


@functools.lru_cache(None)
def _is_in_cycle(directory: str, below: str) -> bool:
    """Return True for a directory that is reached over a link to one of its own parents."""
    seen, path = {os.path.realpath(directory)}, directory
    for name in below.split("/") if below else ():
        path = os.path.join(path, name)
        real = os.path.realpath(path)
        if real in seen:
            return True
        seen.add(real)
    return False


def send_files(place: tuple[str, str, str], wanted: list[tuple[str, int, int]]) -> None:
    """Write the files of `wanted` (path, size, mtime_ns) to stdout, one after the other.

    Each is "N" and N bytes, repeatedly, and then "end", or "error" with a reason. These are lines.
    """
    out = sys.stdout.buffer
    try:
        directory = directory_of(*place)
    except AgentError as error:
        out.write(b"error %s\n" % _line(str(error)))
        return
    for path, size, mtime_ns in wanted:
        try:
            _send(out, os.path.join(directory, path), (size, mtime_ns))
        except BrokenPipeError:
            return
        except OSError as error:
            out.write(b"error %s\n" % _line(error.strerror or str(error)))
        out.flush()


def _send(out: BinaryIO, path: str, version: tuple[int, int]) -> None:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        left = version[0]
        while left > 0 and _is_version(file, version):
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                break
            out.write(b"%d\n" % len(chunk))
            out.write(chunk)
            left -= len(chunk)
        out.write(b"end\n" if left == 0 and _is_version(file, version) else b"error it changed while it was read\n")


def _is_version(file: BinaryIO, version: tuple[int, int]) -> bool:
    status = os.fstat(file.fileno())
    return stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime_ns) == version


def _line(text: str) -> bytes:
    return " ".join(text.split()).encode("utf-8", "replace")[:300]
