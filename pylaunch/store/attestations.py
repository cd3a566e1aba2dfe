"""Attestations of a project: `.pylaunch/attestations/<time>-<digest>.json`, and `latest.json` beside them."""

import os
from pathlib import Path

from pylaunch.errors import UsageError
from pylaunch.model.attestation import Attestation, parse
from pylaunch.store.paths import project_directory
from pylaunch.store.whole_file import SHARED, write_whole

LATEST = "latest.json"


def keep(inventory: Path, attestation: Attestation, *, of_all_hosts: bool) -> Path:
    """Store `attestation` and return its path. One of all hosts becomes the latest, which others are compared with."""
    directory = project_directory(inventory) / "attestations"
    directory.mkdir(parents=True, exist_ok=True)
    time = attestation.made_at.replace(":", "").replace("-", "")
    path = directory / f"{time}-{attestation.digest[:12]}.json"
    write(path, attestation)
    if of_all_hosts:
        aside = directory / f".{LATEST}.{os.getpid()}"
        aside.unlink(missing_ok=True)
        aside.symlink_to(path.name)
        aside.replace(directory / LATEST)
    return path


def write(path: Path, attestation: Attestation) -> None:
    """Write `attestation` to `path`, whole or not at all."""
    write_whole(path, attestation.text.encode(), SHARED)


def latest(inventory: Path) -> Attestation | None:
    """Return the newest attestation of this project; None before the first. Raises UsageError if it was changed."""
    path = project_directory(inventory) / "attestations" / LATEST
    return read(path) if path.exists() else None


def read(path: Path) -> Attestation:
    """Return the attestation in `path`. Raises UsageError if it cannot be read or was changed."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}", hint="make a new one: pylaunch attest") from None
