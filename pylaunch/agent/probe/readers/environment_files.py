"""Altered files of the Python environments that the role python_env has installed. Reads every file."""

from __future__ import annotations

from pylaunch.agent.probe.altered import altered_files
from pylaunch.agent.probe.registry import reader_of_each


@reader_of_each("environment_files.altered", 58.0)
def altered(path: str) -> list[list[str]]:
    """Return the files of the environment at `path` that are not as installed: distribution, file, how."""
    return altered_files(path)
