"""The locked Python environment on the controller: what `pylaunch env lock` makes and the role python_env installs.

    <directory>/requirements.lock   every distribution with its version and the hash of its wheel, and uv
    <directory>/manifest.json       the id of the environment, and what it is for
    <directory>.previous/           the same of the environment before it, to roll back to

The id is the hash of the lock, which names the Python version and the machine it is for: the same id is the same
environment. Every host gets the wheels from an index or a directory of its own, and installs those with the right hash.
"""

import hashlib
import json
import platform
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from pylaunch.base.dataclass import asdict, dataclass
from pylaunch.errors import UsageError
from pylaunch.features.provision.environments.resolution import CONTROLLER_PYTHON, Wheel, resolve
from pylaunch.transport import process

LOCK = "requirements.lock"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class EnvironmentManifest:
    """One locked environment: the content of manifest.json, field for field."""

    id: str
    python: str
    machine: str
    inputs: str
    """Hash of the requirements, to detect that they changed."""

    packages: Mapping[str, str]
    """Distribution → version."""

    uv: str
    """File name of the wheel that installs the others."""


@dataclass(frozen=True)
class LockRequest:
    """A request to lock requirements for one Python version into a directory."""

    requirements: tuple[Path, ...]
    directory: Path
    python: str = CONTROLLER_PYTHON
    upgrade: bool = False


@dataclass(frozen=True)
class Locked:
    """The new environment, and the one before it."""

    manifest: EnvironmentManifest
    previous: EnvironmentManifest | None

    @property
    def is_new(self) -> bool:
        """Return whether the environment changed."""
        return self.previous is None or self.previous.id != self.manifest.id


class DamagedManifestError(UsageError):
    """A manifest.json that cannot be read."""


def read_manifest(directory: Path) -> EnvironmentManifest | None:
    """Return the environment in `directory`, or None. Raises DamagedManifestError."""
    return _read(directory / MANIFEST)


def _read(path: Path) -> EnvironmentManifest | None:
    try:
        return EnvironmentManifest(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError) as error:
        raise DamagedManifestError(
            f"{path}: not a manifest: {error}", hint="make it again: pylaunch env lock requirements.txt"
        ) from None


def lock(request: LockRequest) -> Locked:
    """Resolve the requirements, and put lock and manifest in place together.

    Unchanged requirements keep what they were locked to, at once, unless `upgrade`. Raises UsageError when pip cannot
    find wheels for them.
    """
    inputs = _inputs(request)
    previous = _locked_before(request.directory)
    if previous is not None and previous.inputs == inputs and not request.upgrade:
        return Locked(previous, previous)
    parent = request.directory.parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".environment-", dir=parent) as scratch:
        sources = [as_requirements(path, Path(scratch)) for path in request.requirements]
        wheels = resolve(sources, request.python)
        made = Path(scratch) / "made"
        made.mkdir()
        text = lock_text(wheels, request.python, platform.machine())
        manifest = EnvironmentManifest(
            id=_id(text),
            python=request.python,
            machine=platform.machine(),
            inputs=inputs,
            packages={wheel.name: wheel.version for wheel in wheels},
            uv=next(wheel.file for wheel in wheels if wheel.name == "uv"),
        )
        (made / LOCK).write_text(text, encoding="utf-8")
        (made / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
        before = previous_of(request.directory)
        if previous is not None and previous.id != manifest.id:
            if before.exists():
                before.rename(Path(scratch) / "before")
            request.directory.rename(before)
        elif request.directory.exists():
            request.directory.rename(Path(scratch) / "old")
        made.rename(request.directory)
    return Locked(manifest, previous)


def previous_environment(directory: Path) -> Path:
    """Return the directory of the environment to roll back to. Raises UsageError if there is none."""
    previous = previous_of(directory)
    if not previous.is_dir():
        raise UsageError(
            f"no environment to roll back to: {previous} does not exist",
            hint="one is kept when pylaunch env lock makes another",
        )
    return previous


def swap_with_previous(directory: Path) -> None:
    """Swap the current environment with the one before it; a second call swaps back."""
    previous = previous_environment(directory)
    aside = directory.with_name(f".{directory.name}.aside")
    directory.rename(aside)
    previous.rename(directory)
    aside.rename(previous)


def _locked_before(directory: Path) -> EnvironmentManifest | None:
    """Return the environment in `directory`; None for a damaged one too, which a lock replaces."""
    try:
        manifest = read_manifest(directory)
    except DamagedManifestError:
        return None
    return manifest if manifest is not None and _is_whole(directory, manifest) else None


def previous_of(directory: Path) -> Path:
    """Return the place of the environment before the one in `directory`."""
    return directory.with_name(f"{directory.name}.previous")


def _is_whole(directory: Path, manifest: EnvironmentManifest) -> bool:
    kept = directory / LOCK
    return kept.is_file() and _id(kept.read_text(encoding="utf-8")) == manifest.id


def _id(lock_text: str) -> str:
    return hashlib.sha256(lock_text.encode()).hexdigest()[:16]


def _inputs(request: LockRequest) -> str:
    digest = hashlib.sha256(f"{request.python} {platform.machine()}\n".encode())
    for path in request.requirements:
        for text in _texts(path):
            digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def _texts(path: Path, seen: frozenset[Path] = frozenset(), named: str = "") -> Iterator[str]:
    """Yield a requirements file and those it includes; `named` is the line that includes it."""
    if path.suffix in (".yml", ".yaml"):
        raise UsageError(
            f"{path} is a file of conda, and pylaunch locks wheels",
            hint="in that environment: pip list --format freeze > requirements.txt; or use it as it is: --python PATH",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise UsageError(
            f"{named}no such requirements file: {path}",
            hint="pip freeze > requirements.txt writes one from your environment; more: pylaunch help environment",
        ) from None
    yield text
    for number, line in enumerate(text.splitlines(), 1):
        option, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if option in ("-r", "-c", "--requirement", "--constraint"):
            included = (path.parent / rest.strip()).resolve()
            if included not in seen:
                yield from _texts(included, seen | {included}, f"{path}:{number}: {line.strip()}: ")


def lock_text(wheels: Sequence[Wheel], python: str, machine: str) -> str:
    """A requirements file that admits exactly these wheels."""
    lines = [f"# Made by pylaunch env lock for Python {python} on {machine}."]
    lines += [f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in wheels]
    return "\n".join(lines) + "\n"


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
