"""Open, read and write files in directories where ranks write, too: the one door to them.

A rank can put a FIFO, a device, a symbolic link or a directory in the place of any file of its run, and any content
into it. Files are opened without following a link and without blocking, only if they are regular, and are read up to a
limit. Every failure is an OSError that says what is there instead. JSON in them is for `untrusted_json`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat

PLAIN = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def open_regular(path: str, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Return a descriptor of the regular file `path`; with O_CREAT, it is made with mode 0600.

    `follow`: the file may be behind symbolic links. Raises OSError for everything that is no regular file.
    """
    try:
        descriptor = os.open(path, flags | PLAIN | (0 if follow else os.O_NOFOLLOW), 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "a symbolic link, expected a regular file", path) from None
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "a FIFO, a socket or a device, expected a regular file", path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "expected a regular file", path)
    os.set_blocking(descriptor, True)  # A rank inherits some of these as stdout and stderr.
    return descriptor


def read(path: str, max_size: int, *, follow: bool = False) -> bytes:
    """Return the first `max_size` bytes of `path`. Raises OSError."""
    with open(open_regular(path, follow=follow), "rb") as source:
        return source.read(max_size)


def read_whole(path: str, max_size: int, *, follow: bool = False) -> bytes:
    """Return all bytes of `path`. Raises OSError (EFBIG) when it has more than `max_size`."""
    content = read(path, max_size + 1, follow=follow)
    if len(content) > max_size:
        raise OSError(errno.EFBIG, f"longer than {max_size} bytes", path)
    return content


def size(path: str) -> int:
    """Return the bytes of the regular file `path`; 0 for everything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def append(path: str, content: bytes) -> None:
    """Append `content` to `path`, which is made if need be. Raises OSError."""
    with open(open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as sink:
        sink.write(content)


def replace(path: str, content: bytes) -> None:
    """Make `path` a file of `content`, whole or not at all. Raises OSError."""
    aside = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(aside)
    with open(open_regular(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as sink:
        sink.write(content)
    os.replace(aside, path)


def remove(path: str) -> None:
    """Remove whatever is at `path`, a directory with all that is in it. What cannot be removed stays.

    `shutil.rmtree` alone opens what it is given, and waits if that is a FIFO.
    """
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        return
