"""Decide which file of which node becomes which file here. Pure: names that nodes report are data."""

from collections.abc import Mapping, Sequence

import msgspec

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.text.sanitise import visible_line

LONGEST_NAME = 255
DEEPEST = 64


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
    bad: dict[str, list[str]] = {}
    for host, files in listings.items():
        for file in files:
            place = place_of(file.path)
            if place is None or file.size < 0 or host in by_place.setdefault(place, {}):
                bad.setdefault(host, []).append(file.path)
            else:
                by_place[place][host] = file
    apart, alike = [], []
    for place, of_hosts in by_place.items():
        found = [*of_hosts.items()]
        if not found:
            continue
        (first, file), rest = found[0], found[1:]
        if all(_is_same(file, each) for _, each in rest):
            alike.append(Fetched(first, file, place, tuple(host for host, _ in rest)))
        else:
            apart += [Fetched(host, each, (visible_line(host), *place)) for host, each in found]
    chosen: dict[tuple[str, ...], Fetched] = {}
    for each in (*apart, *alike):  # A directory that is named as a host gives way to that of the host.
        if chosen.setdefault(each.place, each) is not each:
            bad.setdefault(each.host, []).append(each.file.path)
    return [*chosen.values()], [_refusal(host, paths) for host, paths in bad.items()]


def _refusal(host: str, paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{host}: {visible_line(paths[0])[:200]}{more}: not a name for a file here, or another file has its place"


def _is_same(one: NodeFile, other: NodeFile) -> bool:
    """Return True for one file of a file system that both hosts have."""
    return (one.size, one.mtime_ns, one.inode) == (other.size, other.mtime_ns, other.inode)
