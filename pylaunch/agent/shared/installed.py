"""What a Python environment was installed as: one digest, the same on every host that has the same distributions.

The role python_env writes it and the probe compares it, so this file is also a module utility of that role, which may
import nothing of ours: the standard library alone, and any Python >= 3.8.
"""

from __future__ import annotations

import hashlib
import os

MARKER = "pylaunch-environment.json"
"""The file at the top of an environment that keeps its id and its digest."""


def installed_digest(path: str) -> str:
    """One digest for the distributions in the environment at `path`: that of all their RECORD files."""
    digest = hashlib.sha256()
    library = os.path.join(path, "lib")
    for python in sorted(os.listdir(library)):
        packages = os.path.join(library, python, "site-packages")
        for name in sorted(os.listdir(packages)):
            record = os.path.join(packages, name, "RECORD")
            if name.endswith(".dist-info") and os.path.exists(record):
                with open(record, "rb") as file:
                    digest.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()
