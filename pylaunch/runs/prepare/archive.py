"""The agent as one file that any Python ≥ 3.8 runs, the same bytes for the same source."""

import functools
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from pylaunch import __version__
from pylaunch.base.dataclass import dataclass

PACKAGE = f"""\
__version__ = "{__version__}"
import os, sys
__path__ += [place for place in (os.path.join(entry, "pylaunch") for entry in sys.path) if os.path.isdir(place)]
""".encode()
"""The package in the archive. It is on the path of ranks, where a whole pylaunch that is installed stays importable."""

NOT_INSTALLED = ("pylaunch/agent/probe", "pylaunch/agent/piped", "pylaunch/protocol/readings")
"""Directories of programs that the controller pipes to hosts, and of the types of their answers."""

LEVEL = 6
"""Of compression: every start makes the archive, in 14 ms. The lowest level takes 10 ms, for a tenth more."""

EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class AgentArchive:
    """The bytes of the zipapp, and the name they have on nodes."""

    data: bytes
    version: str
    """The first 16 hex digits of the SHA-256 of `data`."""


@functools.cache
def build() -> AgentArchive:
    """Return the agent of this pylaunch with pylaunch.runtime, for the ranks that it starts; built once."""
    files = {"pylaunch/__init__.py": PACKAGE}
    package = resources.files("pylaunch")  # Not its packages, which that would import.
    for name in ("agent", "base", "protocol", "runtime"):
        files |= dict(_modules(package / name, f"pylaunch/{name}"))
    files["__main__.py"] = files.pop("pylaunch/agent/__main__.py")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED, LEVEL)
    return AgentArchive(buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()[:16])


def _modules(directory: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in directory.iterdir():
        inside = f"{name}/{item.name}"
        if item.name.endswith(".py"):
            yield inside, item.read_bytes()
        elif item.is_dir() and inside not in NOT_INSTALLED:
            yield from _modules(item, inside)
