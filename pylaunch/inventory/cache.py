"""Cache the answers of `ansible-inventory` while everything that they depend on is unchanged.

ansible-inventory takes longer than everything else before the first connection. An answer is cached only if all its
inputs are known: a file in INI format, variables beside it or in the working directory, no settings of Ansible and no
plugins. An inventory with a secret is never cached, so that the secret is not written to disk.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from pylaunch.inventory.listing import Listing
from pylaunch.store.paths import cache_directory
from pylaunch.store.whole_file import write_whole

KEPT = 50
"""Number of answers; the oldest is removed first."""

LARGEST = 4 << 20
"""Bytes of input files that are hashed; an inventory with more is not cached."""

FORMAT = "1"
_SECRET = re.compile(r"pass|secret|token|vault", re.IGNORECASE)
_VARIABLES = ("group_vars", "host_vars")
_PLUGINS = ("vars_plugins", "inventory_plugins")


def key(source: Path, directory: Path, environment: Mapping[str, str]) -> str | None:
    """Return the cache key of `source` in the working `directory`: a hash of all inputs, None if some are unknown."""
    if not _is_plain(source, directory, environment):
        return None
    digest = hashlib.sha256(f"{FORMAT} {source} {directory}\n".encode())
    room = LARGEST
    for file in (_ansible(), source, *_variable_files((source.parent, directory))):
        content = _content(file) if file is not None else None
        if content is None:
            return None
        room -= len(content)
        if room < 0:
            return None
        digest.update(f"{file} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def lookup(key: str) -> Listing | None:
    """Return the cached answer; None if there is none or it is damaged."""
    with contextlib.suppress(OSError, ValueError):
        return Listing.parse(_path(key).read_text(encoding="utf-8"))
    return None


def store(key: str, answer: str) -> None:
    """Cache an answer unless it seems to hold a secret. Errors of the disk are ignored."""
    if _has_secret(json.loads(answer)):
        return
    path = _path(key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, answer.encode())
        for old in sorted(path.parent.iterdir(), key=lambda kept: kept.stat().st_mtime, reverse=True)[KEPT:]:
            old.unlink(missing_ok=True)


def _is_plain(source: Path, directory: Path, environment: Mapping[str, str]) -> bool:
    """Return whether Ansible reads `source` with its INI parser and no configuration can change that."""
    home = Path.home()
    settings = [directory / "ansible.cfg", home / ".ansible.cfg", Path("/etc/ansible/ansible.cfg")]
    plugins = [place / name for place in (source.parent, directory) for name in _PLUGINS]
    shared = (home / ".ansible" / "plugins", Path("/usr/share/ansible/plugins"))
    plugins += [place / kind for place in shared for kind in ("vars", "inventory")]
    return (
        source.suffix == ".ini"
        and source.is_file()
        and not os.access(source, os.X_OK)
        and not any(name.startswith("ANSIBLE_") for name in environment)
        and not any(path.exists() for path in (*settings, *plugins))
    )


def _ansible() -> Path | None:
    """Return the file of ansible-core that changes with its version."""
    found = find_spec("ansible")
    places = found.submodule_search_locations if found is not None else None
    return Path(next(iter(places)), "release.py") if places else None


def _content(file: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return file.read_bytes() if file.is_file() else None
    return None


def _variable_files(directories: Iterable[Path]) -> Iterator[Path]:
    for directory in dict.fromkeys(directories):
        for name in _VARIABLES:
            found = sorted((directory / name).rglob("*"))
            # Ansible follows a link to a directory, rglob does not. The link itself is listed, and since it is no
            # file, the answer is not cached.
            yield from (path for path in found if path.is_symlink() or not path.is_dir())


def _has_secret(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_SECRET.search(str(name)) or _has_secret(each) for name, each in value.items())
    return isinstance(value, list) and any(map(_has_secret, value))


def _path(key: str) -> Path:
    return cache_directory() / "inventories" / f"{key}.json"
