"""Hashes of the code and files that must be equal on all nodes. Bounded in number and bytes."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from typing import Any, Iterator

from pylaunch.agent.probe.registry import reader
from pylaunch.protocol.readings.hosts import TreeReading

SOURCES = (
    ".py", ".pyi", ".pyx", ".pxd", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".sh", ".jinja", ".j2",
)  # fmt: skip
"""Suffixes of code files. Other files may be results, which differ between nodes."""

CONFIGURATIONS = (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf")
"""Suffixes of configuration files, which are compared where a command line names them."""

IGNORE_FILES = (".gitignore", ".pylaunchignore")
ALWAYS_IGNORED = (".*/", "__pycache__/", "node_modules/", "*.egg-info/")
"""Python environments are ignored, too."""
MOST_FILES = 2000
MOST_BYTES = 32 << 20
LARGEST = 1 << 20
"""Bytes of the largest file that is hashed; of a larger one, only the size is compared."""

DIGITS = 16


@reader("code.tree", 4.0)
def tree(directory: str) -> TreeReading | None:
    """Return file → hash of all code below `directory` that is not ignored; `complete` is False beyond the bounds.

    None for / and the home directory, which contain more than one project.
    """
    if os.path.realpath(directory) in ("/", os.path.realpath(os.path.expanduser("~"))) or not os.path.isdir(directory):
        return None
    rules = ignore_rules(directory)
    found: dict[str, str] = {}
    size = 0
    for path in sources(directory, rules):
        whole = os.path.join(directory, path)
        size += min(os.stat(whole).st_size, LARGEST)
        if len(found) >= MOST_FILES or size > MOST_BYTES:
            return {"complete": False, "files": {}}
        found[path] = hashed(whole)
    return {"complete": True, "files": found}


def sources(directory: str, rules: list[tuple[str, bool]]) -> Iterator[str]:
    """Yield the relative paths of code below `directory` in a fixed order. Follows no links to directories."""
    for here, directories, files in os.walk(directory):
        relative = os.path.relpath(here, directory)
        prefix = "" if relative == "." else relative + "/"
        directories[:] = sorted(
            name for name in directories
            if not ignored(prefix + name + "/", rules) and not os.path.exists(os.path.join(here, name, "pyvenv.cfg"))
        )  # fmt: skip
        for name in sorted(files):
            if (
                name.endswith(SOURCES)
                and not ignored(prefix + name, rules)
                and os.path.isfile(os.path.join(here, name))
            ):
                yield prefix + name


def ignore_rules(directory: str) -> list[tuple[str, bool]]:
    """Return (pattern, is negated): ALWAYS_IGNORED, then the patterns of IGNORE_FILES in `directory`."""
    rules = [(pattern, False) for pattern in ALWAYS_IGNORED]
    for name in IGNORE_FILES:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                words = [line.strip() for line in file]
            rules += [(word.lstrip("!"), word.startswith("!")) for word in words if word and not word.startswith("#")]
    return rules


def ignored(path: str, rules: list[tuple[str, bool]]) -> bool:
    """Return True if the last rule that matches `path` (directories end in "/") ignores it.

    As in git, for the common forms: a pattern with a slash before its end starts at the top, any other matches at every
    depth, one that ends in a slash matches only directories, * does not match a slash, ** does, and ! negates.
    """
    answer = False
    for pattern, back in rules:
        if (path.endswith("/") or not pattern.endswith("/")) and matches(path.rstrip("/"), pattern.rstrip("/")):
            answer = not back
    return answer


def matches(path: str, pattern: str) -> bool:
    if "/" not in pattern:
        return fnmatch.fnmatchcase(path.rsplit("/", 1)[-1], pattern)
    wanted = pattern.lstrip("/")
    if "**" in wanted:
        return fnmatch.fnmatchcase("/" + path, "/" + wanted.replace("**/", "*"))
    parts, patterns = path.split("/"), wanted.split("/")
    return len(parts) == len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))


def hashed(path: str) -> str:
    """Return a short hash of a file's content; for a large file, its size."""
    size = os.stat(path).st_size
    if size > LARGEST:
        return f"{size} bytes"
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:DIGITS]


@reader("code.files")
def files(question: dict[str, Any]) -> dict[str, str]:
    """Return path → hash of `paths`, relative to `workdir`; "" for a missing file.

    `candidates` are words of a command line; those that are not files of code or configuration are omitted: a
    checkpoint may be half written on the node whose rank was killed, and the ranks themselves read it again.
    """
    found = {}
    for path in question["paths"]:
        whole = os.path.join(question["workdir"], path)
        found[path] = hashed(whole) if os.path.isfile(whole) else ""
    for path in question["candidates"]:
        whole = os.path.join(question["workdir"], path)
        if path.endswith(SOURCES + CONFIGURATIONS) and os.path.isfile(whole):
            found[path] = hashed(whole)
    return found
