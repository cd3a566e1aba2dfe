"""What must be the same on every node of a run, read in a few milliseconds: the agent tells it with Ready."""

from __future__ import annotations

import os
import re
from typing import Callable

from pylaunch.agent.shared.installed import installed_digest
from pylaunch.agent.shared.text import text_of

NVIDIA_VERSION = "/proc/driver/nvidia/version"

LIBRARIES = {"torch": r"torch", "nccl": r"nvidia-nccl-cu\d+"}
"""What must agree between ranks that talk to each other: name -> pattern of the distribution that brings it."""


def essentials(python: str) -> dict[str, str]:
    """Name -> value, "" where there is no such thing; what could not be read says so in its place.

    `python` is the interpreter of the ranks; "" for ranks that need none.
    """
    found = {"kernel series": kernel_series(os.uname().release), "gpu driver": told(_driver)}
    if python:
        found["python"] = told(lambda: python_version(python))
        found["environment digest"] = told(lambda: installed_digest(environment_of(python)))
        found.update(libraries(python))
    return found


def kernel_series(release: str) -> str:
    """The first two numbers of a kernel release: "6.1.0-18-amd64" -> "6.1"."""
    return ".".join(release.split("-")[0].split(".")[:2])


def driver_version(text: str) -> str | None:
    """The version in /proc/driver/nvidia/version, whichever of NVIDIA's two kernel modules wrote it."""
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)", text)
    return found.group(1) if found else None


def python_version(python: str) -> str:
    """The version that the environment of `python` was made with, "3.11.7"; else that in the name of its executable.

    "" where neither says. The interpreter is not run, which would take longer than all the rest.
    """
    try:
        written = text_of(os.path.join(environment_of(python), "pyvenv.cfg"))
    except OSError:
        named = re.search(r"python(\d+\.\d+)$", os.path.realpath(python))
        return named.group(1) if named else ""
    found = re.search(r"^version(?:_info)? *= *(\d+\.\d+\.\d+)", written, re.MULTILINE)
    return found.group(1) if found else ""


def environment_of(python: str) -> str:
    """The directory that `bin/python` is in: an environment, or a prefix such as /usr. Links are not followed."""
    return os.path.dirname(os.path.dirname(python))


def version_of(pattern: str, installed: dict[str, str]) -> str:
    """The version of the distribution that matches, "" for none."""
    return next((version for name, version in sorted(installed.items()) if re.fullmatch(pattern, name)), "")


def distributions(python: str) -> dict[str, str]:
    """What is installed beside `python`: normalised name -> version, from the names of its dist-info directories."""
    library = os.path.join(environment_of(python), "lib")
    found = {}
    for version in sorted(os.listdir(library)):
        packages = os.path.join(library, version, "site-packages")
        if version.startswith("python") and os.path.isdir(packages):
            for entry in os.listdir(packages):
                if entry.endswith(".dist-info"):
                    name, _, number = entry[: -len(".dist-info")].partition("-")
                    found[re.sub(r"[-_.]+", "-", name).lower()] = number
    return found


def libraries(python: str) -> dict[str, str]:
    """The libraries that must agree: name -> version, "" where it is not installed."""
    try:
        installed = distributions(python)
    except (FileNotFoundError, NotADirectoryError):
        installed = {}
    except OSError as error:
        return dict.fromkeys(LIBRARIES, f"unreadable: {error}")
    return {name: version_of(pattern, installed) for name, pattern in LIBRARIES.items()}


def installed_libraries(python: str) -> dict[str, str]:
    """Every distribution beside `python`: name -> version; {} where there is none, or none can be read."""
    try:
        return distributions(python) if python else {}
    except OSError:
        return {}


def _driver() -> str:
    return driver_version(text_of(NVIDIA_VERSION)) or f"unreadable: {NVIDIA_VERSION} names no version"


def told(look: Callable[[], str]) -> str:
    """What `look` finds; "" where there is nothing to look at, and the reason where looking fails."""
    try:
        return look()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"unreadable: {error}"
