"""The settings of a project, in `pylaunch.toml` in the working directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import UsageError

SETTINGS = "pylaunch.toml"
KEYS = ("inventory", "scheduler", "slurm")


@dataclass(frozen=True)
class Settings:
    """Values of the file; those of an absent file are empty."""

    inventory: Path | None = None
    scheduler: str | None = None
    slurm: Mapping[str, object] = field(default_factory=dict)
    """Options of `pylaunch start --scheduler slurm`, by name without dashes."""


def read_settings(directory: Path) -> Settings:
    """Return the settings in `directory`. Raises UsageError for a file that is no TOML, and for unknown keys."""
    settings = directory / SETTINGS
    try:
        text = settings.read_bytes()
    except FileNotFoundError:
        return Settings()
    import tomllib  # noqa: PLC0415 -- 2 ms that a project without settings does not need

    try:
        content = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{settings.name}: not valid TOML: {error}", hint='inventory = "cluster.ini"') from None
    if unknown := sorted(set(content) - set(KEYS)):
        raise UsageError(f"{settings.name}: unknown key: {', '.join(unknown)}", hint=f"the keys are {', '.join(KEYS)}")
    slurm = content.get("slurm", {})
    if not isinstance(slurm, dict):
        raise UsageError(f"{settings.name}: slurm: expected a table, got {slurm!r}", hint="[slurm]")
    inventory = _text(content, "inventory", 'inventory = "cluster.ini"', "a path")
    return Settings(
        None if inventory is None else settings.parent / Path(inventory).expanduser(),
        _text(content, "scheduler", 'scheduler = "slurm"', "a name"),
        slurm,
    )


def _text(content: Mapping[str, object], key: str, hint: str, expected: str) -> str | None:
    if key not in content:
        return None
    value = content[key]
    if not isinstance(value, str) or not value:
        raise UsageError(f"{SETTINGS}: {key}: expected {expected}, got {value!r}", hint=hint)
    return value
