"""Open, read and write files in directories that ranks can write to. All access to such files goes through here.

A rank can replace any file of its run by a FIFO, a device, a symbolic link or a directory, and write any content.
Files are opened without following links and without blocking, only if they are regular, and are read up to a limit.
Every failure is an OSError that names what was found. `untrusted_json` parses JSON in them.
"""

import contextlib
import errno
import os
import stat

PLAIN = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def open_regular(path: str, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Return a descriptor of the regular file `path`; O_CREAT creates it with mode 0600.

    `follow` permits symbolic links. Raises OSError for anything but a regular file.
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
    """Return all bytes of `path`. Raises OSError (EFBIG) if it has more than `max_size`."""
    content = read(path, max_size + 1, follow=follow)
    if len(content) > max_size:
        raise OSError(errno.EFBIG, f"longer than {max_size} bytes", path)
    return content


def read_at(path: str, offset: int, max_size: int) -> bytes:
    """Return at most `max_size` bytes of `path` from `offset` on. Raises OSError."""
    with open(open_regular(path), "rb", buffering=0) as source:
        return os.pread(source.fileno(), max_size, offset)


def size(path: str) -> int:
    """Return the size of the regular file `path` in bytes; 0 for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def obstacle(path: str) -> str:
    """Return the part of `path` that is not there, or cannot be passed, with the reason; "" for a path that exists."""
    try:
        os.lstat(path)
    except OSError as error:
        parent = os.path.dirname(path)
        above = obstacle(parent) if parent != path else ""
        return above or f"{path if error.errno == errno.ENOENT else parent}: {error.strerror}"
    return ""


def append(path: str, content: bytes) -> None:
    """Append `content` to `path`, which is created if missing. Raises OSError."""
    with open(open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as sink:
        sink.write(content)


def replace(path: str, content: bytes) -> None:
    """Replace `path` atomically by a file with `content`. Raises OSError."""
    aside = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(aside)
    with open(open_regular(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as sink:
        sink.write(content)
    os.replace(aside, path)


def remove(path: str) -> None:
    """Remove `path`, a directory with its content. Errors are ignored.

    `shutil.rmtree` alone opens its argument, and blocks on a FIFO.
    """
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            import shutil  # noqa: PLC0415 -- 2 ms that each rank entry would cost

            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        return
