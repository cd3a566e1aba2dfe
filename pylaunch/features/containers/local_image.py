"""The image of a start that is on this machine or in a registry: made once, and kept in the cache by its id.

In the cache directory, `images/<id>.sqsh` is the squashfs of an image and `images/<id>.json` what a start needs to know
about it (`store.image_cache` removes both); `images/names/` has the digest with which a name of a registry was last
started. All can be deleted.
"""

import contextlib
import fcntl
import hashlib
import json
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from pylaunch.base.dataclass import asdict, dataclass, field
from pylaunch.errors import UsageError
from pylaunch.features.containers.conversion import convert
from pylaunch.features.containers.image_archive import ImageArchive, ImageContent, image_in, opened
from pylaunch.model.text import typed_json
from pylaunch.model.text.size import shown_size
from pylaunch.store.image_cache import images_directory, mark_used, remove_unused
from pylaunch.store.whole_file import write_whole
from pylaunch.terminal import console
from pylaunch.transport import process

T = TypeVar("T")
Say: TypeAlias = Callable[[str], None]

DAEMON = "docker-daemon:"
TRANSPORTS = ("docker://", DAEMON)
"""Beginnings of names that skopeo and docker read."""

_PATH, _SAVE = "--container {path}", "podman save {rest} -o image.tar, then --container image.tar"
_PULL = "apptainer pull image.sif {word}, then --container ./image.sif"
_OTHERS = {"docker-archive": _PATH, "oci-archive": _PATH, "oci": _PATH, "containers-storage": _SAVE,
           "library": _PULL, "oras": _PULL, "shub": _PULL}  # fmt: skip
"""Transports of skopeo and Apptainer that are no names of a registry: what to type."""

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
MACHINE = _MACHINES.get(platform.machine(), platform.machine())
"""Of images with several platforms, that of this machine is taken; the name of OCI."""


@dataclass(frozen=True)
class LocalImage:
    """A file of this machine that nodes receive."""

    file: str
    sha256: str
    env: dict[str, str] = field(default_factory=dict)
    """Variables of the configuration of the image."""


@dataclass(frozen=True)
class _Named:
    """The image that a name of a registry had at the last start."""

    digest: str
    image: str


def local_image(given: str, say: Say = console.say, *, makes: bool = True) -> LocalImage | None:
    """Return the image `given` as a file of this machine; None where it is a path on the nodes.

    An archive or an image of a registry is converted, unless it was before; `say` takes lines of progress. Without
    `makes`, it is None then, and of a name of a registry, the image of the last start. Raises UsageError.
    """
    if name := registry_name(given):
        known = _kept(_place_of(name), _Named)
        return _of_registry(name, known, say) if makes else _in_cache("" if known is None else known.image)
    path = Path(given)
    if not path.exists():
        return None
    with opened(path) as archive:
        if archive is not None:
            content = image_in(archive, MACHINE)
            return _in_cache(content.digest) or (_converted(archive, content, path.name, say) if makes else None)
    if path.is_absolute() or not path.is_file():
        return None
    try:
        return LocalImage(str(path.absolute()), _sha256(path))
    except OSError as error:
        raise UsageError(f"--container {given}: {error.strerror}") from None


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def is_of_this_machine(given: str) -> bool:
    """Return whether a start sends `given` to the nodes. Raises UsageError for an archive that cannot be read."""
    if registry_name(given) is not None:
        return True
    path = Path(given)
    with opened(path) as archive:
        return archive is not None or (path.is_file() and not path.is_absolute())


def registry_name(given: str) -> str | None:
    """Return the name of an image of a registry or of docker; None for a path. A `#` after the registry is enroot's.

    Raises UsageError for a name of another store."""
    name = given.replace("#", "/", 1)
    if given.startswith(TRANSPORTS):
        return name
    if given.startswith(("/", ".")) or Path(given).exists():
        return None
    transport, _, rest = given.partition(":")
    if given.startswith("localhost/"):  # As podman names what it has built.
        transport, rest = "containers-storage", given
    if transport in _OTHERS and not rest.partition("/")[0].isdigit():
        hint = _OTHERS[transport].format(rest=rest, path=rest.partition(":")[0], word=given)
        raise UsageError(f"--container {given}: neither a file nor a name of a registry", hint=hint)
    return f"docker://{name}" if rest else None


def _of_registry(name: str, known: _Named | None, say: Say) -> LocalImage:
    program = "docker" if name.startswith(DAEMON) else "skopeo"
    if process.program_path(program) is None:
        what, hint = f"{program} not found, which reads this image", "apt install skopeo (on this machine)"
        raise UsageError(f"--container {name}: {what}", hint="" if name.startswith(DAEMON) else hint)
    digest = _digest(name)
    if known is not None and known.digest != digest:
        say(f"note: {name} is {digest} now; the last start had {known.digest}")
    if known is not None and known.digest == digest and (image := _in_cache(known.image)):
        return image
    say(f"image {name}: reading {digest}")
    with _alone(name, say) as aside:
        if name.startswith(DAEMON):
            _docker("save", "--output", f"{aside}/layout", digest)
        else:
            of_digest = name if "@" in name else f"{_untagged(name)}@{digest}"
            _skopeo("copy", "--quiet", of_digest, f"oci:{aside}/layout:image")
        with opened(aside / "layout") as archive:
            if archive is None:
                raise UsageError(f"--container {name}: {program} wrote no image")
            content = image_in(archive, MACHINE)
            image = _in_cache(content.digest) or _made(archive, content, name, aside, say)
    _keep(_place_of(name), _Named(digest, Path(image.file).stem))
    return image


def _place_of(name: str) -> Path:
    return _directory("names") / f"{hashlib.sha256(name.encode()).hexdigest()}.json"


def _digest(name: str) -> str:
    if name.startswith(DAEMON):  # Its id: the digest that a name may have is that of a registry.
        return _docker("image", "inspect", "--format", "{{.Id}}", "--", name.removeprefix(DAEMON))
    return name.rpartition("@")[2] if "@sha256:" in name else _skopeo("inspect", "--format", "{{.Digest}}", name)


def _untagged(name: str) -> str:
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def _skopeo(*words: str) -> str:
    argv = ("skopeo", "--override-os", "linux", *words)
    return process.run(argv).checked(error=UsageError, hint="skopeo login REGISTRY, if it needs one").stdout.strip()


def _docker(*words: str) -> str:
    """Ask the daemon that the user's `docker` asks: skopeo knows neither DOCKER_HOST nor contexts."""
    return process.run(("docker", *words)).checked(error=UsageError, hint="docker images").stdout.strip()


PART = ".part-"
"""Beginning of files and directories of a conversion; those of one that was killed go at the next."""


def _converted(archive: ImageArchive, content: ImageContent, name: str, say: Say) -> LocalImage:
    with _alone(name, say) as aside:
        return _in_cache(content.digest) or _made(archive, content, name, aside, say)


def _made(archive: ImageArchive, content: ImageContent, name: str, aside: Path, say: Say) -> LocalImage:
    begun, squashfs = time.monotonic(), aside / "image.sqsh"
    remove_unused()
    convert(archive, content, squashfs, name, say)
    sha256 = _sha256(squashfs)
    target = squashfs.replace(_directory() / f"{content.digest}.sqsh")
    image = LocalImage(str(target), sha256, dict(content.env))
    _keep(target.with_suffix(".json"), image)
    size, seconds = shown_size(target.stat().st_size), time.monotonic() - begun
    say(f"image {name} → squashfs, {size}, {seconds:.0f} s, sha256:{content.digest}")
    if content.has_entrypoint:
        say("note: the ENTRYPOINT of the image is not run")
    return image


def _in_cache(image: str) -> LocalImage | None:
    found = _kept(_directory() / f"{image}.json", LocalImage)
    return found if found is not None and mark_used(Path(found.file)) else None


def _directory(name: str = "") -> Path:
    directory = images_directory() / name
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"{directory} cannot be made: {error.strerror}") from None
    return directory


def _kept(place: Path, kind: type[T]) -> T | None:
    try:
        return typed_json.decoded(place.read_bytes(), kind)
    except (OSError, ValueError, msgspec.ValidationError):
        return None


def _keep(place: Path, value: LocalImage | _Named) -> None:
    write_whole(place, json.dumps(asdict(value)).encode())


@contextlib.contextmanager
def _alone(name: str, say: Say) -> Iterator[Path]:
    """Make a directory for a conversion, one at a time, without what a conversion that was killed has left.

    Raises UsageError for an error of the file system in the block.
    """
    directory = _directory()
    try:
        with (directory / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"image {name}: waiting for another conversion in {directory}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            for left in directory.glob(f"{PART}*"):
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(dir=directory, prefix=PART) as aside:
                yield Path(aside)
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename or directory}"
        raise UsageError(f"image {name} cannot be converted: {reason}") from None
