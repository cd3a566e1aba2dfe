"""The agent as one file that any Python ≥ 3.8 runs, the same bytes for the same source.

Every start needs it before the first connection, and compressing takes three quarters of the time. So it is cached
under the hash of the source.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from pylaunch import __version__
from pylaunch.base.dataclass import dataclass
from pylaunch.store.paths import cache_directory
from pylaunch.store.whole_file import write_whole

PACKAGE = f"""\
__version__ = "{__version__}"
import os, sys
__path__ += [place for place in (os.path.join(entry, "pylaunch") for entry in sys.path) if os.path.isdir(place)]
""".encode()
"""The package in the archive. It is on the path of ranks, where a whole pylaunch that is installed stays importable."""

NOT_INSTALLED = ("pylaunch/agent/probe", "pylaunch/agent/piped", "pylaunch/protocol/readings")
"""Directories of programs that the controller pipes to hosts, and of the types of their answers."""

KEPT = 5
"""Number of cached archives; the oldest is removed first."""

PACKING = 2
"""Number of the way in which `_packed` makes the archive of the source."""

EPOCH = (1980, 1, 1, 0, 0, 0)
DIGEST_SIZE = hashlib.sha256().digest_size

OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


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
    path = cache_directory() / "agents" / _key(files)
    data = _cached(path)
    if data is None:
        data = _packed(files)
        _keep(path, data)
    return AgentArchive(data, hashlib.sha256(data).hexdigest()[:16])


def _key(files: dict[str, bytes]) -> str:
    """Return the hash of all that the bytes of the archive depend on."""
    digest = hashlib.sha256(f"{zlib.ZLIB_RUNTIME_VERSION} {PACKING}".encode())
    for name in sorted(files):
        digest.update(f"\n{name} {len(files[name])}\n".encode() + files[name])
    return digest.hexdigest()


def _packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            is_public = name.startswith("pylaunch/runtime/")
            archive.writestr(entry, files[name] if is_public else undocumented(files[name]), zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def undocumented(source: bytes) -> bytes:
    """Return a module with empty docstrings, which are a fifth of the archive. Lines keep their numbers."""
    lines = source.splitlines(keepends=True)
    found = [
        each for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
    ]  # fmt: skip
    for each in found:
        first, last = each.lineno - 1, (each.end_lineno or each.lineno) - 1
        rest = lines[last][each.end_col_offset :]
        lines[first] = lines[first][: each.col_offset] + b'""' + (b"\n" if last > first else rest)
        lines[first + 1 : last + 1] = [b"\n"] * (last - first - 1) + [rest] * (last > first)
    return b"".join(lines)


def _cached(path: Path) -> bytes | None:
    """Return the archive at `path`, which follows its own hash; None if there is none or it is damaged.

    It runs on all nodes, so one that another user of this machine may have written is not used.
    """
    with contextlib.suppress(OSError), os.fdopen(os.open(path, OPENED), "rb") as source:
        found = os.fstat(source.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return None
        whole = source.read()
        digest, data = whole[:DIGEST_SIZE], whole[DIGEST_SIZE:]
        if hashlib.sha256(data).digest() == digest:
            return data
    return None


def _keep(path: Path, data: bytes) -> None:
    """Cache an archive. Errors of the disk are ignored."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, hashlib.sha256(data).digest() + data)
        path.chmod(0o600)
        for old in sorted(path.parent.iterdir(), key=lambda kept: kept.stat().st_mtime, reverse=True)[KEPT:]:
            old.unlink(missing_ok=True)


def _modules(directory: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in directory.iterdir():
        inside = f"{name}/{item.name}"
        if item.name.endswith(".py"):
            yield inside, item.read_bytes()
        elif item.is_dir() and inside not in NOT_INSTALLED:
            yield from _modules(item, inside)
