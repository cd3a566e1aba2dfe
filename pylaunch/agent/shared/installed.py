"""Distributions of a Python environment: one digest of them, equal on all hosts with the same, and their altered files.

The modules of the Ansible collection write the digest and build on unaltered environments with this file, and the probe
compares. So it imports only the standard library, for Python >= 3.8.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

MARKER = "pylaunch-environment.json"
"""File at the top of an environment with its id and its digest."""


def installed_digest(path: str) -> str:
    """Return one digest of all RECORD files of the distributions in the environment at `path`."""
    digest = hashlib.sha256()
    library = os.path.join(path, "lib")
    for python in sorted(os.listdir(library)):
        for name, record in _records(os.path.join(library, python, "site-packages")):
            with open(record, "rb") as file:
                digest.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def altered_files(path: str) -> list[list[str]]:
    """Return the files of the environment at `path` that differ from their records as [distribution, file, how]."""
    altered = []
    for packages in _packages(path):
        recorded: set[str] = set()
        for name, record in _records(packages):
            for file, expected in _rows(record):
                recorded.add(file)
                place = os.path.normpath(os.path.join(packages, file))
                how = changed_since(place, expected) if expected else None
                altered += [[name[: -len(".dist-info")], place, how]] if how else []
        altered += [["no package", os.path.join(packages, name), "added"] for name in _tops(packages, recorded)]
    return altered


def _packages(path: str) -> Iterator[str]:
    library = os.path.join(path, "lib")
    places = (os.path.normpath(os.path.join(library, each, "site-packages")) for each in sorted(os.listdir(library)))
    return filter(os.path.isdir, places)


def _records(packages: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the directories with a RECORD, and its path."""
    for name in sorted(os.listdir(packages)):
        record = os.path.join(packages, name, "RECORD")
        if name.endswith(".dist-info") and os.path.exists(record):
            yield name, record


def _rows(record: str) -> list[list[str]]:
    """Return file and hash of each row of a RECORD."""
    import csv  # noqa: PLC0415 -- not needed at a start

    with open(record, encoding="utf-8", errors="surrogateescape", newline="") as lines:
        return [row[:2] for row in csv.reader(lines) if row]


def _tops(packages: str, recorded: set[str]) -> list[str]:
    """Return the files at the top of site-packages, which affect every import, that are not `recorded`.

    Files below are ignored, because packages keep caches there.
    """
    tops = (name for name in sorted(os.listdir(packages)) if name.endswith((".py", ".pth", ".so")))
    return [name for name in tops if name not in recorded and not name.startswith("_virtualenv.")]


def changed_since(path: str, expected: str) -> str | None:
    """Return how a file differs from its hash in a RECORD (`sha256=…`), or None."""
    import base64  # noqa: PLC0415 -- not needed at a start

    algorithm, _, wanted = expected.partition("=")
    digest = hashlib.new(algorithm)
    try:
        with open(path, "rb") as file:
            for chunk in iter(lambda: file.read(1 << 20), b""):
                digest.update(chunk)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    return None if base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode() == wanted else "edited"
