"""Versions of pylaunch and of the programs and packages that it uses on this machine."""

import os
import platform
import sys
from importlib import metadata
from typing import Any

from pylaunch import __version__
from pylaunch.store.files import cache_directory, state_directory
from pylaunch.transport.connections import client_version

PACKAGES = ("ansible-core", "ansible-runner", "click", "jinja2", "msgspec", "paramiko", "rich", "uv")
"""Distributions whose version can explain a bug."""


def controller_versions() -> dict[str, Any]:
    """Return the software of this machine; None for what is not installed or does not answer."""
    return {
        "pylaunch": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "openssh": client_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "system": _system(),
        "state": str(state_directory()),
        "cache": str(cache_directory()),
    }


def package_version(name: str) -> str | None:
    """Return the version of an installed distribution; None without it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _system() -> str:
    """Return the distribution, the kernel and the architecture."""
    kernel = os.uname()
    try:
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:  # Not a Linux, or without its description.
        distribution = ""
    return ", ".join(filter(None, (distribution, f"{kernel.sysname} {kernel.release}", kernel.machine)))
