"""The settings of a project, in `pylaunch.toml` in the working directory."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError

SETTINGS = "pylaunch.toml"
KEYS = ("inventory", "env")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Settings:
    """Values of the file; those of an absent file are empty."""

    inventory: Path | None = None
    env_name: str | None = None
    """Python environment of this project on the hosts."""


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
    env = _table(content, "env", ("name",))
    inventory = _text(content, "inventory", 'inventory = "cluster.ini"', "a path")
    return Settings(
        None if inventory is None else settings.parent / Path(inventory).expanduser(),
        environment_name(env["name"], f"{settings.name}: env.name") if "name" in env else None,
    )


def environment_name(value: object, origin: str) -> str:
    """Return the name of an environment, which is a directory on hosts. Raises UsageError with its `origin`."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise UsageError(
        f"{origin}: expected 1 to 64 letters, digits, '.', '_' or '-', the first a letter or a digit, got {value!r}",
        hint='in pylaunch.toml: [env] with name = "vision"',
    )


def _table(content: Mapping[str, object], key: str, keys: Sequence[str]) -> Mapping[str, object]:
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f"{SETTINGS}: {key}: expected a table, got {value!r}", hint=f"[{key}]")
    if unknown := sorted(set(value) - set(keys)):
        hint = f"the keys are {', '.join(keys)}" if keys[1:] else f"the key is {keys[0]}"
        raise UsageError(f"{SETTINGS}: {key}: unknown key: {', '.join(unknown)}", hint=hint)
    return value


def _text(content: Mapping[str, object], key: str, hint: str, expected: str) -> str | None:
    if key not in content:
        return None
    value = content[key]
    if not isinstance(value, str) or not value:
        raise UsageError(f"{SETTINGS}: {key}: expected {expected}, got {value!r}", hint=hint)
    return value
