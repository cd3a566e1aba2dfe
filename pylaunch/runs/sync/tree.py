"""The working tree that is shipped with a run: read once, every file hashed, ignored files omitted.

Patterns are those of gitignore(5). The later of these wins: built-in patterns (`.git`, `__pycache__`), `.gitignore` and
then `.pylaunchignore` of each directory from the top down, `--sync-exclude`. No pattern ships the
inventory in use, `pylaunch.toml` or a file that ansible-vault encrypted.
"""

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.manifest import File, Manifest, SymbolicLink
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import shown_size
from pylaunch.store.files import OUTPUT_DIRECTORY

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

NEVER = (".git", ".pylaunch/", f"{OUTPUT_DIRECTORY}/", "__pycache__/", "*.pyc")
IGNORE_FILES = (".gitignore", ".pylaunchignore")
GIT = IGNORE_FILES[0]
BUILT_IN = "built in"
EXCLUDE = "--sync-exclude"
SETTINGS = "pylaunch.toml"
VAULT = b"$ANSIBLE_VAULT;"
"""Beginning of a file that ansible-vault encrypted."""

MOST_FILES = 100_000
LIMIT = 2 << 30
"""Bytes of the largest tree that is shipped."""

CHUNK = 1 << 20


@dataclass(frozen=True)
class Tree:
    """A snapshot of a directory."""

    directory: Path
    manifest: Manifest
    left_out: tuple[str, ...]
    """Paths that are neither file nor link: sockets, devices."""

    ignored: tuple[str, ...]
    """Files and directories that .gitignore excludes; those that other patterns exclude are not listed."""

    withheld: tuple[str, ...] = ()
    """Paths of files and directories that are never shipped, because they describe or unlock hosts."""


@dataclass(frozen=True)
class _Rules:
    """Patterns for `directory` and everything below."""

    directory: str
    spec: "GitIgnoreSpec"
    source: str
    """Name of the file that contains them."""


def read_tree(
    directory: Path,
    excludes: Sequence[str] = (),
    limit: int = LIMIT,
    private: Collection[Path] = (),
) -> Tree:
    """Read and hash the files to ship, without the files and directories `private`.

    Raises UsageError when it is no directory, cannot be read, or is larger than `limit` bytes or MOST_FILES.
    """
    if not directory.is_dir():
        raise UsageError(f"--sync {directory}: not a directory")
    walk = _Walk(directory, _spec(excludes, EXCLUDE), any(each.startswith("!") for each in excludes))
    walk.private = frozenset(_inodes(private))
    walk.read("", (_Rules("", _spec(NEVER, BUILT_IN), BUILT_IN),))
    found = walk.found
    files = [entry for entry in found if stat.S_ISREG(entry[1].st_mode)]
    size = sum(status.st_size for _, status in files)
    if size > limit or len(found) > MOST_FILES:
        raise _too_much(directory, files, size, limit)
    links = tuple(
        SymbolicLink(path, str((directory / path).readlink())) for path, status in found if stat.S_ISLNK(status.st_mode)
    )
    read = []
    for path, status in files:
        file = _read(directory, path, status)
        if file is None:
            walk.withheld.append(path)
            continue
        read.append(file)
    special = [path for path, status in found if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))]
    return Tree(directory, Manifest(tuple(read), links), tuple(special), tuple(walk.ignored), tuple(walk.withheld))


class _Walk:
    """Collects the files to ship, and the names of those that .gitignore excludes."""

    def __init__(self, directory: Path, excludes: "GitIgnoreSpec", has_includes: bool) -> None:
        self.found: list[tuple[str, os.stat_result]] = []
        self.ignored: list[str] = []
        self.withheld: list[str] = []
        self.private: frozenset[tuple[int, int]] = frozenset()
        """Device and inode of what is never shipped."""

        self._directory = directory
        self._excludes = excludes
        self._has_includes = has_includes

    def read(self, inside: str, above: tuple[_Rules, ...], ignored_by: str = "") -> None:
        """Read the directory `inside`; `ignored_by` is the file that names it, for a directory that is not shipped."""
        rules = above if ignored_by else (*above, *_rules(self._directory, inside))
        try:
            with os.scandir(self._directory / inside) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if ignored_by:
                return
            raise UsageError(f"--sync: {self._directory / inside} cannot be read: {error.strerror}") from None
        for entry in listed:
            path = f"{inside}/{entry.name}" if inside else entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if self._is_private(entry):
                self.withheld.append(path + "/" * is_directory)
                continue
            source = self._ignored_by(path + "/" * is_directory, rules, ignored_by)
            if source == GIT and not ignored_by and not entry.is_symlink() and not self._is_environment(path):
                self.ignored.append(path + "/" * is_directory)
            if is_directory:
                is_read = source not in (BUILT_IN, EXCLUDE) and self._has_includes and not self._is_environment(path)
                if not source or is_read:
                    self.read(path, rules, source)
            elif not source:
                self.found.append((path, entry.stat(follow_symlinks=False)))

    def _is_private(self, entry: os.DirEntry[str]) -> bool:
        if entry.name == SETTINGS:
            return True
        if entry.inode() not in {inode for _, inode in self.private}:
            return False
        status = entry.stat(follow_symlinks=False)
        return (status.st_dev, status.st_ino) in self.private

    def _ignored_by(self, path: str, rules: Sequence[_Rules], above: str) -> str:
        """Return the name of the file or flag that excludes `path`; "" for a path that is shipped."""
        source = above
        for rule in () if above else rules:
            answer = rule.spec.check_file(path.removeprefix(rule.directory)).include
            if answer is not None:
                source = rule.source if answer else ""
        answer = self._excludes.check_file(path).include
        return source if answer is None else EXCLUDE * answer

    def _is_environment(self, path: str) -> bool:
        """Return True for a Python environment, which has no files to ship."""
        return (self._directory / path / "pyvenv.cfg").exists()


def _inodes(paths: Collection[Path]) -> Iterator[tuple[int, int]]:
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            yield status.st_dev, status.st_ino


def _rules(directory: Path, inside: str) -> Iterator[_Rules]:
    for name in IGNORE_FILES:
        path = directory / inside / name
        if path.is_file():
            spec = _spec(path.read_text(errors="replace").splitlines(), str(path))
            yield _Rules(f"{inside}/" if inside else "", spec, name)


def _spec(lines: Sequence[str], where: str) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - it takes 10 ms, and most starts ship nothing

    try:
        return GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error) as error:
        number, line = next(each for each in enumerate(lines, start=1) if not _is_pattern(each[1]))
        raise UsageError(
            f"{where}: line {number}: {line.strip()!r} is no pattern: {error}",
            hint="the patterns are those of .gitignore",
        ) from None


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - as above

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _read(directory: Path, path: str, status: os.stat_result) -> File | None:
    """Return the file with its digest; None for one that ansible-vault encrypted."""
    digest = hashlib.sha256()
    try:
        with (directory / path).open("rb") as file:
            if file.read(len(VAULT)) == VAULT:
                return None
            file.seek(0)
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise UsageError(
            f"--sync: {directory / path} cannot be read: {error.strerror}",
            hint=f"--sync-exclude {quoted((path,))} leaves it out",
        ) from None
    return File(path, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, digest.hexdigest())


def _too_much(directory: Path, files: list[tuple[str, os.stat_result]], size: int, limit: int) -> UsageError:
    parts: dict[str, int] = {}
    for path, status in files:
        top = path.partition("/")[0]
        parts[top] = parts.get(top, 0) + status.st_size
    largest = sorted(parts.items(), key=lambda part: part[1], reverse=True)[:5]
    return UsageError(
        f"--sync {directory}: {len(files)} files with {shown_size(size)}; "
        f"at most {MOST_FILES} files with {shown_size(limit)} are shipped",
        evidence=[f"{part}: {shown_size(held)}" for part, held in largest],
        hint="leave data out with .pylaunchignore or --sync-exclude, and bring it with pylaunch push DATA DEST",
    )
