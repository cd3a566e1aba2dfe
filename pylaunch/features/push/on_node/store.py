"""Files of a push on one node: pieces are written into a private directory, and files renamed when they are whole.

All files of a push follow each other in one row of bytes, which is divided into pieces of equal size. A file that
the destination has already, with the same size and hash, is read there and not written.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
import shutil
import stat
import threading
import time
from typing import Any, Iterable, Iterator, Sequence, Tuple

CHUNK = 1 << 20
STAGING = ".pylaunch-push-"
FLUSHED = 32 << 20
"""Bytes after which a file is flushed: the flush at the end is short, and no standstill."""

BUSY_S = 5.0
"""Time in which a transfer ends whose controller was killed."""

ABANDONED_S = 7 * 86400
"""A directory of pieces without a change for this long belongs to a push that nobody repeats."""

Span = Tuple[int, int, int]
"""File, offset in it, and number of bytes."""


def spans(ends: Sequence[int], begin: int, end: int) -> Iterator[Span]:
    """Return the parts of files that a range of bytes consists of. `ends` are the ends of the files in the row."""
    index = bisect.bisect_right(ends, begin)
    while begin < end:
        first = ends[index - 1] if index else 0
        size = min(end, ends[index]) - begin
        if size:
            yield index, begin - first, size
        begin += size
        index += 1


class StoreError(Exception):
    """This node cannot receive the files, with the reason."""


class WrongPieceError(Exception):
    """Bytes that have not the hash of their piece."""


def reason(error: OSError) -> str:
    """Return an error of the operating system as text: "No space left on device: /data"."""
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"


class PieceStore:
    """Pieces of one push, on the disk of this node. Threads share it. Its methods raise OSError."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._base: str = os.path.abspath(order["base"])
        self._files: list[tuple[str, int, int, str]] = [tuple(each) for each in order["files"]]
        self._directories: list[str] = order["directories"]
        self._links: list[tuple[str, str]] = [tuple(each) for each in order["links"]]
        self._piece: int = order["piece"]
        self._hashes: list[bytes] = [bytes.fromhex(each) for each in order["hashes"]]
        self._staging = os.path.join(self._base, STAGING + order["id"])
        self._ends: list[int] = []
        for _, _, size, _ in self._files:
            self._ends.append(size + (self._ends[-1] if self._ends else 0))
        self._present = [False] * len(self._files)
        self._changed = threading.Condition()
        self.have = [False] * len(self._hashes)
        self.hashed = 0
        """Bytes that were read from the disk and hashed."""

        self._lock = -1

    def size_of(self, piece: int) -> int:
        """Return the bytes of a piece; the last one may be short."""
        return min(self._piece, (self._ends[-1] if self._ends else 0) - piece * self._piece)

    def open(self) -> None:
        """Check the destination, take the directory of pieces, and find out what is here. Raises StoreError."""
        os.makedirs(self._base, exist_ok=True)
        found = os.stat(self._base)
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise StoreError(f"every user may replace files in {self._base}: chmod o-w {shlex.quote(self._base)}")
        self._check_targets()
        self._remove_abandoned()
        is_new = self._take_staging()
        self._find_present()
        missing = sum(size for (_, _, size, _), is_here in zip(self._files, self._present) if not is_here)
        missing -= sum(os.lstat(each.path).st_blocks * 512 for each in os.scandir(self._staging))
        space = os.statvfs(self._staging)
        if missing > space.f_bavail * space.f_frsize:
            free = space.f_bavail * space.f_frsize
            raise OSError(errno.ENOSPC, f"{missing} bytes are needed and {free} are free", self._base)
        for index, (_, _, size, _) in enumerate(self._files):
            if not self._present[index]:
                self._create(index, size)
        for piece in range(len(self.have)):
            spans = list(self._spans(piece))
            if all(self._present[index] for index, _, _ in spans):
                self.have[piece] = True
            elif not is_new and all(self._present[index] or self._has_data(index, *at) for index, *at in spans):
                content = b"".join(self._read(spans))
                self.hashed += len(content)
                self.have[piece] = hashlib.sha256(content).digest() == self._hashes[piece]

    def _check_targets(self) -> None:
        """Raise StoreError for a link or a file in the place of a directory, and the other way round."""
        for path in self._directories:
            found = _status(os.path.join(self._base, path))
            if found is not None and not stat.S_ISDIR(found.st_mode):
                raise StoreError(f"not a directory: {os.path.join(self._base, path)}")
        for path in (*(each[0] for each in self._files), *(each[0] for each in self._links)):
            found = _status(os.path.join(self._base, path))
            if found is not None and stat.S_ISDIR(found.st_mode):
                whole = os.path.join(self._base, path)
                raise StoreError(f"is a directory: {whole}; to push into it: {whole}/")

    def _remove_abandoned(self) -> None:
        for entry in os.scandir(self._base):
            if entry.name.startswith(STAGING) and entry.path != self._staging:
                found = entry.stat(follow_symlinks=False)
                if found.st_uid == os.geteuid() and time.time() - found.st_mtime > ABANDONED_S:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _take_staging(self) -> bool:
        """Make the directory of pieces or take that of an interrupted push; return True for an empty one.

        Raises StoreError while another transfer of the same files has it.
        """
        until = time.monotonic() + BUSY_S
        while True:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._staging, 0o700)
            try:
                self._lock = os.open(self._staging, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:  # Another transfer has ended.
                continue
            found = os.fstat(self._lock)
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise StoreError(f"{self._staging} is not private to this user: remove it")
            is_free = _is_locked(self._lock)
            now = _status(self._staging)
            if is_free and now is not None and os.path.samestat(now, found):
                os.utime(self._lock)  # It is in use: not abandoned.
                return not os.listdir(self._lock)
            os.close(self._lock)  # Another transfer has it, or has removed it, because it has everything.
            self._lock = -1
            if time.monotonic() > until:
                raise StoreError("another transfer of the same files is under way here: push again when it has ended")
            time.sleep(BUSY_S / 50)

    def _find_present(self) -> None:
        for index, (path, _, size, digest) in enumerate(self._files):
            target = os.path.join(self._base, path)
            found = _status(target)
            if found is not None and stat.S_ISREG(found.st_mode) and found.st_size == size:
                try:
                    self._present[index] = self._file_digest(target) == digest
                except PermissionError:
                    continue

    def _file_digest(self, path: str) -> str:
        hashed = hashlib.sha256()
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            for chunk in iter(lambda: file.read(CHUNK), b""):
                hashed.update(chunk)
                self.hashed += len(chunk)
        return hashed.hexdigest()

    def _create(self, index: int, size: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.chmod(self._place(index), 0o600)  # `finish` may have been interrupted after it set the mode.
        descriptor = os.open(self._place(index), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def _has_data(self, index: int, offset: int, size: int) -> bool:
        """Return False where nothing was written to a part of a file yet; holes need not be read."""
        descriptor = os.open(self._place(index), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            return os.lseek(descriptor, offset, os.SEEK_DATA) < offset + size
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        finally:
            os.close(descriptor)

    def _place(self, index: int) -> str:
        return os.path.join(self._base if self._present[index] else self._staging, self._name(index))

    def _name(self, index: int) -> str:
        return self._files[index][0] if self._present[index] else str(index)

    def _spans(self, piece: int) -> Iterator[Span]:
        """Return the parts of files that a piece consists of."""
        begin = piece * self._piece
        return spans(self._ends, begin, begin + self.size_of(piece))

    def parts(self, piece: int) -> Iterator[tuple[int, int, int]]:
        """Return open descriptors, offsets and sizes of the parts of a piece that is here; each is closed after use."""
        return self._opened(self._spans(piece))

    def _opened(self, spans: Iterable[Span]) -> Iterator[tuple[int, int, int]]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        for index, offset, size in spans:
            try:
                descriptor = os.open(self._place(index), flags)
            except FileNotFoundError:  # Renamed meanwhile.
                descriptor = os.open(os.path.join(self._base, self._files[index][0]), flags)
            try:
                yield descriptor, offset, size
            finally:
                os.close(descriptor)

    def _read(self, spans: Iterable[Span]) -> Iterator[bytes]:
        for descriptor, offset, size in self._opened(spans):
            while size:
                chunk = os.pread(descriptor, min(CHUNK, size), offset)
                if not chunk:
                    raise OSError(errno.EIO, "a file became shorter")
                yield chunk
                offset, size = offset + len(chunk), size - len(chunk)

    def write(self, piece: int, content: bytes | bytearray) -> bool:
        """Keep a piece; return False when it was here already. Raises WrongPieceError, and OSError for a full disk."""
        if hashlib.sha256(content).digest() != self._hashes[piece]:
            raise WrongPieceError
        with self._changed:
            if self.have[piece]:
                return False
        view = memoryview(content)
        for index, offset, size in self._spans(piece):
            part, view = view[:size], view[size:]
            if self._present[index]:
                continue
            descriptor = os.open(self._place(index), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                while part:
                    written = os.pwrite(descriptor, part, offset)
                    offset, part = offset + written, part[written:]
            finally:
                os.close(descriptor)
        with self._changed:
            is_first, self.have[piece] = not self.have[piece], True
            self._changed.notify_all()
        return is_first

    def prove(self) -> None:
        """Read every file again as soon as its pieces are here, and compare its hash. Raises StoreError."""
        for index, (path, _, size, digest) in enumerate(self._files):
            if self._present[index]:
                continue
            hashed, unflushed = hashlib.sha256(), 0
            end = self._ends[index]
            for piece in range((end - size) // self._piece, -(-end // self._piece)) if size else ():
                with self._changed:
                    while not self.have[piece]:
                        self._changed.wait()
                for chunk in self._read(span for span in self._spans(piece) if span[0] == index):
                    hashed.update(chunk)
                    self.hashed += len(chunk)
                unflushed += self._piece
                if unflushed >= FLUSHED:
                    unflushed = 0
                    _flush(self._place(index), os.O_NOFOLLOW)
            if hashed.hexdigest() != digest:
                raise StoreError(f"{path} has another content on the disk than was received: does the disk fail?")

    def finish(self) -> None:
        """Flush files, rename each to its place, remove the staging. Raises StoreError."""
        self._check_targets()
        parents = {self._base}
        for path in self._directories:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.join(self._base, path))
        for index, (path, mode, _, _) in enumerate(self._files):
            target = os.path.join(self._base, path)
            parents.add(os.path.dirname(target))
            if not self._present[index]:
                descriptor = os.open(self._place(index), os.O_RDWR | os.O_NOFOLLOW)
                try:
                    os.fchmod(descriptor, mode)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                os.replace(self._place(index), target)
                self._present[index] = True
                self.hashed += 1  # A change of the progress: many files take minutes to flush.
            elif stat.S_IMODE(os.lstat(target).st_mode) != mode:
                os.chmod(target, mode)
        for path, leads_to in self._links:
            target = os.path.join(self._base, path)
            parents.add(os.path.dirname(target))
            staged = os.path.join(self._staging, "link")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(staged)
            os.symlink(leads_to, staged)
            os.replace(staged, target)
        for directory in parents:
            _flush(directory, os.O_DIRECTORY)
        self.close()

    def close(self) -> None:
        """Remove the directory of pieces if no piece is left in it, and release it."""
        if self._lock >= 0:
            if all(self._present):
                shutil.rmtree(self._staging, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _is_locked(descriptor: int) -> bool:
    """Lock a directory; return False if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise StoreError(f"not a directory: {os.path.dirname(path)}") from None


def _flush(path: str, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
