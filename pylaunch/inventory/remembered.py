"""What Ansible answered about an inventory, kept for as long as everything is the same that the answer depends on.

Asking Ansible takes longer than everything else before the hosts are called. Only answers of which all that they
depend on can be named are kept: a file in INI format, variables beside it or in the working directory, no settings of
Ansible's and no plugins. Everything else is asked anew, and so is what holds a secret, which is written to no disk.
"""

from __future__ import annotations

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

KEPT = 50
"""Answers; the oldest is forgotten first."""

LARGEST = 4 << 20
"""Bytes of files that are read to find out whether they are as they were."""

FORMAT = "1"
_SECRET = re.compile(r"pass|secret|token|vault", re.IGNORECASE)
_VARIABLES = ("group_vars", "host_vars")
_PLUGINS = ("vars_plugins", "inventory_plugins")


def question(source: Path, directory: Path, environment: Mapping[str, str]) -> str | None:
    """What stands for everything that Ansible's answer about `source` depends on, asked in the working `directory`;
    None when not all of it can be named."""
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


def recall(asked: str) -> Listing | None:
    """The answer to a `question`, if it is kept whole."""
    with contextlib.suppress(OSError, ValueError):
        return Listing.parse(_place(asked).read_text(encoding="utf-8"))
    return None


def keep(asked: str, answer: str) -> None:
    """Keep the answer to a `question`, unless it holds what looks like a secret. A disk that takes nothing is no
    matter: Ansible is asked again."""
    if _has_secret(json.loads(answer)):
        return
    place = _place(asked)
    with contextlib.suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = place.with_name(f".{place.name}.{os.getpid()}")
        aside.write_text(answer, encoding="utf-8")
        aside.replace(place)
        for old in sorted(place.parent.iterdir(), key=lambda kept: kept.stat().st_mtime, reverse=True)[KEPT:]:
            old.unlink(missing_ok=True)


def _is_plain(source: Path, directory: Path, environment: Mapping[str, str]) -> bool:
    """Ansible reads it with its own INI parser, and nothing tells Ansible to do otherwise."""
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
    """The file of ansible-core that changes with its version."""
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
            # Ansible reads what lies behind a link to a directory, and it is not among these: the link itself is, and
            # since that is no file, nothing is kept.
            yield from (path for path in found if path.is_symlink() or not path.is_dir())


def _has_secret(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_SECRET.search(str(name)) or _has_secret(each) for name, each in value.items())
    return isinstance(value, list) and any(map(_has_secret, value))


def _place(asked: str) -> Path:
    return cache_directory() / "inventories" / f"{asked}.json"
