"""Directories of wheels, from which hosts install an environment without an index."""

import sys
from pathlib import Path

from pylaunch.transport import process
from tests.node_python import NODE_PYTHON


def download(environment: Path, directory: Path, *also: str) -> None:
    """Download the wheels of a locked environment into `directory`, as the guide without internet access says, and
    those of further requirements."""
    words = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--python-version", NODE_PYTHON)
    lock = ("--dest", str(directory), "--find-links", str(directory))
    for wanted in (("--requirement", str(environment / "requirements.lock")), *((each,) for each in also)):
        process.run((sys.executable, "-m", "pip", *words, *lock, *wanted), timeout_s=600).checked()
