"""The working tree that a run takes with it: read once, every file hashed, what is ignored left out.

Patterns are those of gitignore(5). The later of these wins: what nobody ships (`.git`, `__pycache__`), `.gitignore` and
then `.pylaunchignore` of each directory from the top down, `--sync-exclude`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pylaunch.errors import UsageError
from pylaunch.model.manifest import File, Link, Manifest

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

NEVER = (".git", ".pylaunch/", "__pycache__/", "*.pyc")
IGNORE_FILES = (".gitignore", ".pylaunchignore")
MOST_FILES = 100_000
DEFAULT_LIMIT = 2 << 30
"""Bytes of a tree that is shipped without asking for more."""

CHUNK = 1 << 20
Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Tree:
    """A directory as it was when it was read."""

    directory: Path
    manifest: Manifest
    stamps: tuple[tuple[str, Stamp], ...]
    """Path → what the file system says when the file has not been touched since."""

    left_out: tuple[str, ...]
    """What is neither file nor link: sockets, devices."""

    def changed(self) -> list[str]:
        """Files that are not what they were."""
        return [path for path, before in self.stamps if _stamp_of(self.directory / path) != before]


@dataclass(frozen=True)
class _Rules:
    """Patterns that hold in `directory` and below."""

    directory: str
    spec: GitIgnoreSpec


def read_tree(directory: Path, excludes: Sequence[str] = (), limit: int = DEFAULT_LIMIT) -> Tree:
    """Read and hash what is to be shipped.

    Raises UsageError when it is no directory, cannot be read, or is larger than `limit` bytes or MOST_FILES.
    """
    if not directory.is_dir():
        raise UsageError(f"--sync {directory}: not a directory")
    found = [*_walk(directory, "", (_Rules("", _spec(NEVER, "built in")),), _spec(excludes, "--sync-exclude"))]
    files = [entry for entry in found if stat.S_ISREG(entry[1].st_mode)]
    size = sum(status.st_size for _, status in files)
    if size > limit or len(found) > MOST_FILES:
        raise _too_much(directory, files, size, limit)
    links = tuple(
        Link(path, str((directory / path).readlink())) for path, status in found if stat.S_ISLNK(status.st_mode)
    )
    read, stamps = [], []
    for path, status in files:
        read.append(_read(directory, path, status))
        stamps.append((path, _stamp(status)))
    special = [path for path, status in found if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))]
    return Tree(directory, Manifest(tuple(read), links), tuple(stamps), tuple(special))


def _walk(
    directory: Path, inside: str, above: tuple[_Rules, ...], last: GitIgnoreSpec
) -> Iterator[tuple[str, os.stat_result]]:
    rules = (*above, *_rules(directory, inside))
    try:
        with os.scandir(directory / inside) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"--sync: {directory / inside} cannot be read: {error.strerror}") from None
    for entry in listed:
        path = f"{inside}/{entry.name}" if inside else entry.name
        is_directory = entry.is_dir(follow_symlinks=False)
        if _is_ignored(path + "/" * is_directory, rules, last):
            continue
        if is_directory:
            yield from _walk(directory, path, rules, last)
        else:
            yield path, entry.stat(follow_symlinks=False)


def _rules(directory: Path, inside: str) -> Iterator[_Rules]:
    for name in IGNORE_FILES:
        path = directory / inside / name
        if path.is_file():
            yield _Rules(
                f"{inside}/" if inside else "", _spec(path.read_text(errors="replace").splitlines(), str(path))
            )


def _spec(lines: Sequence[str], where: str) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - it takes 10 ms, and most starts ship nothing

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise UsageError(f"{where}: {error}", hint="the patterns are those of .gitignore") from None


def _is_ignored(path: str, rules: Sequence[_Rules], last: GitIgnoreSpec) -> bool:
    answers = [rule.spec.check_file(path.removeprefix(rule.directory)).include for rule in rules]
    answers.append(last.check_file(path).include)
    decided = [answer for answer in answers if answer is not None]
    return bool(decided and decided[-1])


def _read(directory: Path, path: str, status: os.stat_result) -> File:
    digest = hashlib.sha256()
    try:
        with (directory / path).open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise UsageError(
            f"--sync: {directory / path} cannot be read: {error.strerror}", hint=f"--sync-exclude {path} leaves it out"
        ) from None
    return File(path, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, digest.hexdigest())


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _stamp_of(path: Path) -> Stamp | None:
    try:
        return _stamp(path.lstat())
    except OSError:
        return None


def _too_much(directory: Path, files: list[tuple[str, os.stat_result]], size: int, limit: int) -> UsageError:
    parts: dict[str, int] = {}
    for path, status in files:
        top = path.partition("/")[0]
        parts[top] = parts.get(top, 0) + status.st_size
    largest = sorted(parts.items(), key=lambda part: part[1], reverse=True)[:5]
    return UsageError(
        f"--sync {directory}: {len(files)} files with {size / 2**20:.0f} MiB; "
        f"at most {MOST_FILES} files with {limit / 2**20:.0f} MiB are shipped",
        evidence=[f"{part}: {held / 2**20:.1f} MiB" for part, held in largest],
        hint="leave data out with .pylaunchignore or --sync-exclude, or allow more with --sync-limit",
    )
