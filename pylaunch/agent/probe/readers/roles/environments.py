"""Python environments that the role python_env has installed, and their altered files."""

from __future__ import annotations

import json
import os

from pylaunch.agent.probe.altered import altered_files
from pylaunch.agent.probe.registry import reader_of_each
from pylaunch.agent.shared.installed import MARKER, installed_digest
from pylaunch.agent.shared.text import text_of
from pylaunch.protocol.readings.roles import EnvironmentReading


@reader_of_each("environments.installed", 25.0)
def installed(path: str) -> EnvironmentReading:
    """Return the digest of a Python environment at its installation and now."""
    recorded = json.loads(text_of(os.path.join(path, MARKER)))
    return {
        "recorded": recorded["digest"],
        "digest": installed_digest(path),
        "runs": os.access(os.path.join(path, "bin", "python"), os.X_OK),
    }


@reader_of_each("environments.altered", 58.0)
def altered(path: str) -> list[list[str]]:
    """Return the files of the environment at `path` that are not as installed: distribution, file, how. Reads each."""
    return altered_files(path)
