"""Digest of the distributions of a Python environment, equal on all hosts with the same distributions.

The module `environment` of the Ansible collection writes the digest, and the probe compares it. So this file imports
only the standard library, for Python >= 3.8.
"""

import hashlib
import os

MARKER = "pylaunch-environment.json"
"""File at the top of an environment with its id and its digest."""


def installed_digest(path: str) -> str:
    """Return one digest of all RECORD files of the distributions in the environment at `path`."""
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
