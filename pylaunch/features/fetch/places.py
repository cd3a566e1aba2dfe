"""Which file of which node becomes which file here.

Names that nodes report are data. No name and no link of what is here leads out of the directory.
"""

import contextlib
import os
import stat
from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.text.sanitise import visible_line

LONGEST_NAME = 255
DEEPEST = 64

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class NodeFile(msgspec.Struct, frozen=True):
    """A file below the working directory of a run, as its node reports it."""

    path: str
    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True)
class Fetched:
    """A file of a node, and its place here."""

    host: str
    file: NodeFile
    place: tuple[str, ...]
    """Names from the directory to the file: no "..", no separator, no control character."""

    others: tuple[str, ...] = ()
    """Hosts that have the same file."""


def refuse_patterns(patterns: Sequence[str]) -> None:
    """Raise UsageError for patterns that could leave the working directory."""
    for pattern in patterns:
        names = pattern.split("/")
        if not pattern or names[0] == "" or ".." in names or "\0" in pattern:
            raise UsageError(
                f"PATTERN {visible_line(pattern)!r}: expected a path below the working directory of the run",
                hint="pylaunch fetch RUN 'checkpoints/*.pt'",
            )


def place_of(path: str) -> tuple[str, ...] | None:
    """Return `path` as names that are safe here; None for a path that leaves the directory, or is too long."""
    names = tuple(visible_line(name) for name in path.split("/"))
    if len(names) > DEEPEST or any(name in ("", ".", "..") for name in names):
        return None
    if names[-1].startswith(".") and names[-1].endswith(".part"):
        return None  # Names of what has arrived of other files.
    return names if all(len(name.encode()) <= LONGEST_NAME - len("..part") for name in names) else None


def choose_files(listings: Mapping[str, Sequence[NodeFile]]) -> tuple[list[Fetched], list[str]]:
    """Return what to fetch, in the order of hosts, and the lines for paths that are refused.

    Hosts with the same file give one. Different files of the same name get a directory for each host.
    """
    by_place: dict[tuple[str, ...], dict[str, NodeFile]] = {}
    refused: dict[str, list[str]] = {}
    for host, files in listings.items():
        for file in files:
            place = place_of(file.path)
            if place is None or file.size < 0 or host in by_place.get(place, {}):
                refused.setdefault(host, []).append(file.path)
            else:
                by_place.setdefault(place, {})[host] = file
    apart, alike = [], []
    for place, found in by_place.items():
        (first, *rest), file = found, next(iter(found.values()))
        if len({(each.size, each.mtime_ns, each.inode) for each in found.values()}) == 1:  # Of a shared file system.
            alike.append(Fetched(first, file, place, tuple(rest)))
        else:
            apart += [Fetched(host, each, (visible_line(host), *place)) for host, each in found.items()]
    chosen: dict[tuple[str, ...], Fetched] = {}
    for each in (*apart, *alike):  # A directory that is named as a host gives way to that of the host.
        if chosen.setdefault(each.place, each) is not each:
            refused.setdefault(each.host, []).append(each.file.path)
    return [*chosen.values()], [_refusal(host, paths) for host, paths in refused.items()]


def _refusal(host: str, paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{host}: {visible_line(paths[0])[:200]}{more}: not a name for a file here, or another file has its place"


def is_here(directory: Path, wanted: Fetched) -> bool | None:
    """Return True for a file of the size and time of `wanted` in its place, False for another one, None for none.

    Raises OSError for a place that cannot be used.
    """
    try:
        with _parent(directory, wanted, make=False) as parent:
            status = os.stat(wanted.place[-1], dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    is_same = (status.st_size, status.st_mtime_ns) == (wanted.file.size, wanted.file.mtime_ns)
    return is_same and stat.S_ISREG(status.st_mode)


async def write_file(directory: Path, wanted: Fetched, contents: AsyncIterable[bytes]) -> None:
    """Write `contents` to the place of `wanted`, whole or not at all. Raises OSError, and what `contents` raises."""
    with _parent(directory, wanted, make=True) as parent:
        part = f".{wanted.place[-1]}.part"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=parent)
        try:
            with open(os.open(part, _NEW, 0o666, dir_fd=parent), "wb") as file:  # noqa: PTH123 -- relative to `parent`
                async for content in contents:
                    file.write(content)
                file.flush()
                os.utime(file.fileno(), ns=(wanted.file.mtime_ns, wanted.file.mtime_ns))
            os.rename(part, wanted.place[-1], src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=parent)
            raise


@contextlib.contextmanager
def _parent(directory: Path, wanted: Fetched, *, make: bool) -> Iterator[int]:
    """Open the directory of the file, one name after the other, without following a link. Raises OSError."""
    if make:
        directory.mkdir(parents=True, exist_ok=True)
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in wanted.place[:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            below = os.open(name, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)
