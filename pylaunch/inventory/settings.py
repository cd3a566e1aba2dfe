"""The settings of a project, in `pylaunch.toml` in the working directory."""

from pathlib import Path
from typing import Annotated

import msgspec

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.text.typed_json import converted

SETTINGS = "pylaunch.toml"


class _Environment(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")] | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    inventory: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    env: _Environment = msgspec.field(default_factory=_Environment)


@dataclass(frozen=True)
class Settings:
    """Values of the file; those of an absent file are empty."""

    inventory: Path | None = None
    env_name: str | None = None
    """Python environment of this project: the name of its directory on the hosts."""


def read_settings(directory: Path) -> Settings:
    """Return the settings in `directory`. Raises UsageError for a file that cannot be read or has other keys."""
    settings = directory / SETTINGS
    try:
        text = settings.read_bytes()
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise UsageError(f"{SETTINGS}: cannot be read: {error.strerror}", hint=f"ls -ld {SETTINGS}") from None
    import tomllib  # noqa: PLC0415 -- 2 ms that a project without settings does not need

    try:
        found = converted(tomllib.loads(text.decode()), _File)
        inventory = found.inventory and settings.parent / Path(found.inventory).expanduser()
    except (ValueError, RuntimeError, msgspec.ValidationError) as error:  # RuntimeError: no such ~user, or too deep.
        keys = 'inventory = "cluster.ini", and below [env]: name = "vision" (letters, digits, . _ -)'
        raise UsageError(f"{SETTINGS}: {error}", hint=keys) from None
    return Settings(inventory or None, found.env.name)
