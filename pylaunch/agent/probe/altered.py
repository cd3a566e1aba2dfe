"""Files of a Python environment that differ from the installed distributions.

The module `environment` of the Ansible collection uses this file, too, to build on unaltered ones. So it imports only
the standard library, for Python >= 3.8.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
from collections.abc import Iterator


def altered_files(path: str) -> list[list[str]]:
    """Return the altered files of the environment at `path` as [distribution, file, how]. Reads every file."""
    altered = []
    for distribution, file, expected in _recorded(path):
        how = changed_since(file, expected)
        if how is not None:
            altered.append([distribution, file, how])
    return altered + _added(path)


def _packages(path: str) -> Iterator[str]:
    library = os.path.join(path, "lib")
    for python in sorted(os.listdir(library)):
        packages = os.path.join(library, python, "site-packages")
        if os.path.isdir(packages):
            yield os.path.normpath(packages)


def _recorded(path: str) -> Iterator[tuple[str, str, str]]:
    """Yield distribution, file and hash of every file with a hash in a RECORD."""
    for packages in _packages(path):
        for name in sorted(os.listdir(packages)):
            record = os.path.join(packages, name, "RECORD")
            if not name.endswith(".dist-info") or not os.path.exists(record):
                continue
            for file, expected, _ in _rows(record):
                if expected:
                    place = os.path.normpath(os.path.join(packages, file))
                    yield name[: -len(".dist-info")], place, expected


def _rows(record: str) -> list[list[str]]:
    with open(record, encoding="utf-8", errors="surrogateescape", newline="") as lines:
        return list(csv.reader(lines))


def _added(path: str) -> list[list[str]]:
    """Return files at the top of site-packages that belong to no distribution, which affect every import.

    Files below are ignored, because packages keep caches there.
    """
    added = []
    for packages in _packages(path):
        names = sorted(os.listdir(packages))
        tops = [name for name in names if name.endswith((".py", ".pth", ".so")) and not name.startswith("_virtualenv.")]
        if not tops:
            continue
        recorded: set[str] = set()
        for name in names:
            record = os.path.join(packages, name, "RECORD")
            if name.endswith(".dist-info") and os.path.exists(record):
                recorded.update(row[0] for row in _rows(record) if row)
        added += [["no package", os.path.join(packages, name), "added"] for name in tops if name not in recorded]
    return added


def changed_since(path: str, expected: str) -> str | None:
    """Return how a file differs from its hash in a RECORD (`sha256=…`), or None."""
    algorithm, _, wanted = expected.partition("=")
    digest = hashlib.new(algorithm)
    try:
        with open(path, "rb") as file:
            for chunk in iter(lambda: file.read(1 << 20), b""):
                digest.update(chunk)
    except FileNotFoundError:
        return "missing"
    return None if base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode() == wanted else "edited"
