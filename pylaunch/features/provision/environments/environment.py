"""The locked Python environment on the controller: what `pylaunch env lock` makes and the role python_env installs.

    <directory>/requirements.lock   every distribution with its version and the hash of its wheel
    <directory>/environment.tar     the lock, the wheels and uv, uncompressed, in one file to copy
    <directory>/manifest.json       the id of the environment, and the hash of every file in the archive
    <directory>.previous/           the same of the environment before it, to roll back to

The id is the hash of the lock, which names the Python version and the machine it is for: the same id is the same
environment. The wheels are those pip finds, in indexes or in local directories it is configured to look into; where
they came from is not recorded, and no host ever asks.
"""

import hashlib
import json
import platform
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.parser import BytesHeaderParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from pylaunch.base.dataclass import asdict, dataclass
from pylaunch.errors import UsageError
from pylaunch.features.provision.environments import resolution
from pylaunch.model.text.quantity import shown_size
from pylaunch.transport import process
from pylaunch.transport.process import Completed

LOCK = "requirements.lock"
ARCHIVE = "environment.tar"
MANIFEST = "manifest.json"
CONTROLLER_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


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
    """The wheel in the archive that installs the others."""

    files: Mapping[str, str]
    """Member of the archive → SHA-256."""

    archive_bytes: int
    unpacked_bytes: int


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


@dataclass(frozen=True)
class LockProgress:
    """Callbacks that show the progress of a lock."""

    say: Callable[[str], None] = lambda text: None
    """A line for a person."""

    show: Callable[[Callable[[], str]], None] = lambda text: None
    """The current activity; called repeatedly while it lasts."""


NOT_SHOWN = LockProgress()


def lock(request: LockRequest, progress: LockProgress = NOT_SHOWN) -> Locked:
    """Resolve the requirements, fetch the wheels, and put lock, archive and manifest in place together.

    Unchanged requirements keep what they were locked to, at once, unless `upgrade`. A large download is announced.
    Raises UsageError when pip cannot find wheels for them.
    """
    inputs = _inputs(request)
    previous = _locked_before(request.directory)
    if previous is not None and previous.inputs == inputs and not request.upgrade:
        return Locked(previous, previous)
    parent = request.directory.parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".environment-", dir=parent) as scratch:
        wheels = _download(request, Path(scratch) / "wheels", progress)
        tool = _download_uv(request, Path(scratch) / "uv")
        made = Path(scratch) / "made"
        made.mkdir()
        manifest = _write(made, wheels, tool, _Target(request.python, platform.machine(), inputs))
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
    archive, kept = directory / ARCHIVE, directory / LOCK
    is_archive_whole = archive.is_file() and archive.stat().st_size == manifest.archive_bytes
    return is_archive_whole and kept.is_file() and _sha256(kept) == manifest.files.get(LOCK)


def _inputs(request: LockRequest) -> str:
    digest = hashlib.sha256(f"{request.python} {platform.machine()} uv {version('uv')}\n".encode())
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


def _download(request: LockRequest, directory: Path, progress: LockProgress) -> list[Path]:
    directory.mkdir()
    sources = [as_requirements(path, directory) for path in request.requirements]
    words = [word for path in sources for word in ("--requirement", str(path))]
    total = _announce(request, directory, words, progress)
    unpacking = directory / "unpacking"
    unpacking.mkdir()

    def fetched() -> str:
        size = sum(path.stat().st_size for path in unpacking.rglob("*.whl") if path.is_file())
        return f"fetching wheels: {shown_size(size)}" + (f" of {shown_size(total)}" if total else "")

    progress.show(fetched)
    _pip(request, ["download", "--dest", str(directory), *words], {"TMPDIR": str(unpacking)})
    progress.show(lambda: "packing the environment")
    return sorted(directory.glob("*.whl"))


def _announce(request: LockRequest, directory: Path, words: Sequence[str], progress: LockProgress) -> int:
    """Announce pip's downloads; return the known bytes."""
    report = directory / "report.json"
    dry_run = ["install", "--dry-run", "--ignore-installed", "--target", str(directory / "nothing")]
    _pip(request, [*dry_run, "--report", str(report), *words])
    chosen = resolution.read_report(report.read_text(encoding="utf-8"))
    size_of = resolution.sizes(chosen)
    if (text := resolution.announcement(chosen, size_of)) is not None:
        progress.say(text)
    return sum(size or 0 for size in size_of.values())


def _download_uv(request: LockRequest, directory: Path) -> Path:
    _pip(request, ["download", "--dest", str(directory), "--no-deps", f"uv=={version('uv')}"])
    return next(directory.glob("uv-*.whl"))


def _for_python(request: LockRequest) -> list[str]:
    # With --python-version, pip still evaluates markers for its own version: the flag is omitted where they are equal.
    return ["--python-version", request.python] if request.python != CONTROLLER_PYTHON else []


def _run_pip(request: LockRequest, words: Sequence[str], env: Mapping[str, str] | None = None) -> Completed:
    verb, *rest = words
    return process.run(
        (
            sys.executable, "-m", "pip", verb, "--quiet", "--no-input", "--disable-pip-version-check",
            "--only-binary", ":all:", *_for_python(request), *rest,
        ),
        env=env,
    )  # fmt: skip


def _pip(request: LockRequest, words: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    ended = _run_pip(request, words, env)
    if not ended.ok:
        lines = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("[notice]")]
        raise UsageError(
            f"pip cannot lock {' '.join(str(path) for path in request.requirements)} for Python {request.python}",
            evidence=lines[-8:],
            hint=resolution.next_step(ended.stderr),
        )


@dataclass(frozen=True)
class _Target:
    python: str
    machine: str
    inputs: str


@dataclass(frozen=True)
class Wheel:
    """A wheel as it describes itself."""

    path: Path
    name: str
    version: str
    sha256: str
    unpacked_bytes: int


def _write(directory: Path, wheels: Sequence[Path], tool: Path, target: _Target) -> EnvironmentManifest:
    """Write lock, archive and manifest into `directory`."""
    described = sorted((_described(path) for path in wheels), key=lambda wheel: wheel.name)
    text = lock_text(described, target.python, target.machine)
    lock_path = directory / LOCK
    lock_path.write_text(text, encoding="utf-8")
    members = {LOCK: lock_path, **{f"wheels/{path.name}": path for path in sorted({*wheels, tool}, key=_by_name)}}
    _archive(directory / ARCHIVE, members)
    manifest = EnvironmentManifest(
        id=hashlib.sha256(text.encode()).hexdigest()[:16],
        python=target.python,
        machine=target.machine,
        inputs=target.inputs,
        packages={wheel.name: wheel.version for wheel in described},
        uv=f"wheels/{tool.name}",
        files={name: _sha256(path) for name, path in members.items()},
        archive_bytes=(directory / ARCHIVE).stat().st_size,
        unpacked_bytes=sum(wheel.unpacked_bytes for wheel in described),
    )
    (directory / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest


def _by_name(path: Path) -> str:
    return path.name


def lock_text(wheels: Sequence[Wheel], python: str, machine: str) -> str:
    """A requirements file that admits exactly these wheels."""
    lines = [f"# Made by pylaunch env lock for Python {python} on {machine}."]
    lines += [f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in wheels]
    return "\n".join(lines) + "\n"


def _described(path: Path) -> Wheel:
    """Read a wheel's own metadata; its file name spells the version differently ("+" and "_")."""
    with zipfile.ZipFile(path) as archive:
        name = next(
            name for name in archive.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1
        )
        headers = BytesHeaderParser().parsebytes(archive.read(name))
        unpacked = sum(entry.file_size for entry in archive.infolist())
    return Wheel(path, str(headers["Name"]).lower(), str(headers["Version"]), _sha256(path), unpacked)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _archive(archive: Path, members: Mapping[str, Path]) -> None:
    """Write an archive whose bytes depend on its members alone."""
    with tarfile.open(archive, "w:", format=tarfile.PAX_FORMAT) as tar:
        for name, path in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mode = 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)


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
