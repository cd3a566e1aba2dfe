"""Facts that must be equal on every node of a run, read in a few milliseconds; the agent sends them in Ready."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from pylaunch.agent.shared.installed import installed_digest
from pylaunch.agent.shared.text import listed, text_of, text_or_none

NVIDIA_VERSION = "/proc/driver/nvidia/version"

UNREADABLE = "unreadable: "

LIBRARIES = {"torch": r"torch", "nccl": r"nvidia-nccl-cu\d+"}
"""Libraries that must be equal on all ranks: name -> pattern of the distribution that contains the library."""

CUDA_OF_TORCH = r"^cuda\b[^=\n]*= *['\"](\d+)"
CUDA_OF_JAX = r"^jax_cuda(\d+)_plugin-.*\.dist-info$"


def essentials(python: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return name -> value, and the distributions beside `python`, name -> version.

    A value is "" for a missing one, "unreadable: …" for one that cannot be read. `python` is the interpreter of the
    ranks; "" for ranks that need none.
    """
    found = {"kernel series": kernel_series(os.uname().release), "gpu driver": value_or_reason(_driver)}
    installed: dict[str, str] = {}

    def digest() -> str:
        installed.update(distributions(python))
        return installed_digest(environment_of(python))

    if python:
        found["python"] = value_or_reason(lambda: python_version(python))
        read = found["environment digest"] = value_or_reason(digest)
        for name, pattern in LIBRARIES.items():
            versions = (version for each, version in sorted(installed.items()) if re.fullmatch(pattern, each))
            found[name] = read if read.startswith(UNREADABLE) else next(versions, "")
    return found, installed


def kernel_series(release: str) -> str:
    """Return the first two numbers of a kernel release: "6.1.0-18-amd64" -> "6.1"."""
    return ".".join(release.split("-")[0].split(".")[:2])


def driver_version(text: str) -> str | None:
    """Return the version in /proc/driver/nvidia/version of the open or the proprietary kernel module."""
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)", text)
    return found.group(1) if found else None


def python_version(python: str) -> str:
    """Return the version in pyvenv.cfg of the environment of `python`, "3.11.7"; else that in the executable's name.

    "" if neither has one. The interpreter is not run: that would take longer than all other facts together.
    """
    try:
        written = text_of(os.path.join(environment_of(python), "pyvenv.cfg"))
    except OSError:
        named = re.search(r"python(\d+\.\d+)$", os.path.realpath(python))
        return named.group(1) if named else ""
    found = re.search(r"^version(?:_info)? *= *(\d+\.\d+\.\d+)", written, re.MULTILINE)
    return found.group(1) if found else ""


def environment_of(python: str) -> str:
    """Return the directory that contains `bin/python`: an environment, or a prefix such as /usr. Follows no links."""
    return os.path.dirname(os.path.dirname(python))


def distributions(python: str) -> dict[str, str]:
    """Return the distributions beside `python`, normalised name -> version, from the names of dist-info directories."""
    found = {}
    for packages in _packages(python):
        for entry in os.listdir(packages):
            if entry.endswith(".dist-info"):
                name, _, number = entry[: -len(".dist-info")].partition("-")
                found[re.sub(r"[-_.]+", "-", name).lower()] = number
    return found


def _packages(python: str) -> list[str]:
    """Return the directories of packages beside `python`. Raises OSError where there is none."""
    library = os.path.join(environment_of(python), "lib")
    versions = (version for version in sorted(os.listdir(library)) if version.startswith("python"))
    return [
        path
        for path in (os.path.join(library, version, "site-packages") for version in versions)
        if os.path.isdir(path)
    ]


def cuda_needed(python: str) -> tuple[str, int] | None:
    """Return "torch" or "JAX" beside `python` with the major version of CUDA that it is made for; None without one."""
    try:
        for packages in _packages(python) if python else ():
            torch = re.search(CUDA_OF_TORCH, text_or_none(f"{packages}/torch/version.py") or "", re.MULTILINE)
            jax = re.search(CUDA_OF_JAX, "\n".join(os.listdir(packages)), re.MULTILINE)
            for name, found in (("torch", torch), ("JAX", jax)):
                if found:
                    return name, int(found[1])
    except OSError:
        return None
    return None


def installed_libraries(python: str) -> dict[str, str]:
    """Return every distribution beside `python`, name -> version; {} if there is none or they cannot be read."""
    try:
        return distributions(python) if python else {}
    except OSError:
        return {}


def _driver() -> str:
    return driver_version(text_of(NVIDIA_VERSION)) or f"{UNREADABLE}{NVIDIA_VERSION} names no version"


def value_or_reason(look: Callable[[], str]) -> str:
    """Return the value of `look`; "" for a missing file, "unreadable: …" with the reason for any other OSError."""
    try:
        return look()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"{UNREADABLE}{error}"


PCI_DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")


def pci_gpus(root: str) -> list[str]:
    """Return the PCI addresses of NVIDIA's GPUs."""
    found = []
    for address in listed(root):
        place = os.path.join(root, address)
        try:
            vendor, kind = (text_of(os.path.join(place, name)).strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == NVIDIA and kind[:6] in DISPLAY:
            found.append(address)
    return found
