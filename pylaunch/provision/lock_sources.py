"""Sources of a lock as pip requirements: `uv.lock` and `pylock.toml` become requirements pinned by hash."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from pylaunch.errors import UsageError
from pylaunch.transport import process


def as_requirements(source: Path, directory: Path) -> Path:
    """Return `source` as a requirements file; other formats are converted into `directory`."""
    if source.name == "uv.lock":
        return _exported(source, directory / "uv.requirements.txt")
    if source.suffix == ".toml" and source.name.startswith("pylock."):
        made = directory / f"{source.stem}.requirements.txt"
        made.write_text(pylock_requirements(source.read_text(encoding="utf-8"), str(source)), encoding="utf-8")
        return made
    return source


def _exported(source: Path, made: Path) -> Path:
    process.run(
        (
            find_uv_bin(), "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project",
            "--format", "requirements.txt", "--project", str(source.absolute().parent), "--output-file", str(made),
        ),
    ).checked(error=UsageError, hint=f"uv.lock needs its pyproject.toml beside it: {source.parent}")  # fmt: skip
    return made


def pylock_requirements(text: str, name: str) -> str:
    """Return the packages of a `pylock.toml` as requirements, each with its marker and the hashes of its wheels.

    Raises UsageError for a file of another format, and for a package without wheels.
    """
    try:
        lines = [_requirement(package) for package in tomllib.loads(text)["packages"]]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise UsageError(f"{name}: not a pylock.toml ({error})", hint="uv export --format pylock.toml") from None
    return "".join(f"{line}\n" for line in lines)


def _requirement(package: dict[str, Any]) -> str:
    wheels = package.get("wheels", [])
    if not wheels:
        raise UsageError(
            f"{package['name']} has no wheel in the lock", hint="only wheels can be locked: choose a version with one"
        )
    marker = f" ; {package['marker']}" if "marker" in package else ""
    hashes = "".join(f" --hash=sha256:{wheel['hashes']['sha256']}" for wheel in wheels)
    return f"{package['name']}=={package['version']}{marker}{hashes}"
