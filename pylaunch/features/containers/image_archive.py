"""Images as container engines save them: which blobs of an archive are the layers, and what the configuration says.

Three forms: the archive of `docker save` (`manifest.json`), an OCI layout (`index.json`) in a directory, and the same
in an archive. Everything here is what anybody can write: texts and numbers have bounds, digests are compared.
"""

import contextlib
import hashlib
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeAlias

from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError

DOCKER_INDEX, OCI_INDEX = "manifest.json", "index.json"
DIGEST = re.compile(r"sha256:([0-9a-f]{64})\Z")
MOST_JSON = 4 << 20
"""Bytes of a manifest or a configuration, as registries limit them."""

MOST_HEADER = 1 << 20
"""Bytes of a header that extends another one: a long name, attributes."""

Version: TypeAlias = tuple[int, int, int]
MOST_BLOBS = 100_000
MOST_LAYERS = 1000
GZIP = b"\x1f\x8b"


class ImageArchiveError(UsageError):
    """The archive has no image that can be used."""


class BoundedTarInfo(tarfile.TarInfo):
    """Header of an archive, whose extensions are not read into memory where they are too large."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
        """Return the header. Raises ImageArchiveError for an extension of more than MOST_HEADER bytes."""
        header = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
        if header.type in b"LKxgX" and header.size > MOST_HEADER:
            raise ImageArchiveError(f"a header of {header.size} bytes, more than {MOST_HEADER}")
        if header.type == tarfile.GNUTYPE_SPARSE:
            cls._refuse_sparse()
        return header

    @staticmethod
    def _refuse_sparse(*_: object) -> None:
        """Raise ReadError. The map of a sparse file is read into memory, and images have none."""
        raise tarfile.ReadError("a sparse file, which images do not have")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


@dataclass(frozen=True)
class ImageContent:
    """An image in an archive."""

    digest: str
    """SHA-256 of its configuration, which has the hash of each layer: the id of the image."""

    layers: tuple[str, ...]
    """Blobs of the layers, the first at the bottom."""

    hashes: tuple[str, ...]
    """SHA-256 of each layer, uncompressed."""

    env: Mapping[str, str]
    has_entrypoint: bool


@dataclass(frozen=True)
class ImageArchive:
    """Blobs of an archive or of a directory, by name."""

    path: Path
    tar: tarfile.TarFile | None
    members: Mapping[str, tarfile.TarInfo]
    versions: dict[Path, Version]
    """Of the files that were opened."""

    def open(self, name: str) -> BinaryIO:
        """Open a blob. Raises ImageArchiveError where it is not there."""
        try:
            if self.tar is None:
                file = (self.path / name).open("rb")
                self.versions.setdefault(self.path / name, _version(file))
                return file
            if (found := self.tar.extractfile(self.members[name])) is not None:
                return found  # type: ignore[return-value]
        except (KeyError, FileNotFoundError):
            pass
        raise ImageArchiveError(f"{self.path}: {name} is missing: is the archive whole?")

    def json(self, name: str, digest: str | None = None) -> tuple[Any, str]:
        """Return the value of a blob, and its SHA-256, which has to be `digest`. Raises ImageArchiveError."""
        with self.open(name) as source:
            content = source.read(MOST_JSON + 1)
        found = hashlib.sha256(content).hexdigest()
        if digest is not None and found != digest:
            raise ImageArchiveError(f"{self.path}: {name} has sha256 {found}, expected {digest}")
        try:
            return untrusted_json.parse(content, MOST_JSON), found
        except untrusted_json.UntrustedJsonError as error:
            raise ImageArchiveError(f"{self.path}: {name} is not JSON within bounds: {error}") from None


@contextlib.contextmanager
def opened(path: Path) -> Iterator[ImageArchive | None]:
    """Open the archive or OCI layout at `path`; None where it is neither. Raises ImageArchiveError."""
    versions: dict[Path, Version] = {}
    try:
        with _opened(path, versions) as archive:
            yield archive
    except ImageArchiveError:
        for file, before in versions.items():
            with contextlib.suppress(OSError), file.open("rb") as now:
                if _version(now) == before:
                    continue
            hint = "start again when nothing writes there"
            raise ImageArchiveError(f"{file} changed while it was read", hint=hint) from None
        raise


def _version(file: BinaryIO) -> Version:
    status = os.fstat(file.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def _opened(path: Path, versions: dict[Path, Version]) -> Iterator[ImageArchive | None]:
    if path.is_dir():
        is_layout = (path / "oci-layout").is_file() and (path / OCI_INDEX).is_file()
        yield ImageArchive(path, None, {}, versions) if is_layout else None
        return
    if not path.is_file() or not os.access(path, os.R_OK):
        yield None
        return
    try:
        with path.open("rb") as source:
            versions[path] = _version(source)
            start = source.read(262)
        if start[:2] == GZIP:
            raise ImageArchiveError(f"{path} is compressed as a whole", hint=f"gunzip -k {path}")
        if start[257:] != b"ustar":
            yield None
            return
        with _tar(path) as tar:
            yield ImageArchive(path, tar, _members(tar, path), versions)
    except OSError as error:
        raise ImageArchiveError(f"{path}: {error.strerror or error}") from None
    except (tarfile.TarError, RecursionError, EOFError) as error:
        raise ImageArchiveError(f"{path} is damaged: {error}") from None


def _tar(path: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(path, "r:", tarinfo=BoundedTarInfo)
    except ValueError as error:  # A number of an extended header.
        raise tarfile.ReadError(str(error)) from None


def _members(tar: tarfile.TarFile, path: Path) -> dict[str, tarfile.TarInfo]:
    members: dict[str, tarfile.TarInfo] = {}
    try:
        for member in tar:
            member.pax_headers = {}  # Each has a copy of those of the whole archive.
            members[member.name.removeprefix("./")] = member
            if len(members) > MOST_BLOBS:
                raise ImageArchiveError(f"{path} has more than {MOST_BLOBS} files: it is no image, but a directory")
    except ValueError as error:  # A number of an extended header.
        raise tarfile.ReadError(str(error)) from None
    return members


def image_in(archive: ImageArchive, machine: str) -> ImageContent:
    """Return the image of `archive`, that for `machine` where there are several. Raises ImageArchiveError."""
    try:
        if DOCKER_INDEX in archive.members:
            (image,) = _one(archive, archive.json(DOCKER_INDEX)[0], machine)
            config, digest = archive.json(str(image["Config"]))
            layers = [str(each).removeprefix("./") for each in image["Layers"]]
        else:
            manifest = _manifest(archive, archive.json(OCI_INDEX)[0], machine)
            config, digest = archive.json(*_blob(manifest["config"]))
            layers = [_blob(each)[0] for each in manifest["layers"]]
        settings = config.get("config") or {}
        hashes = tuple(_hash(each) for each in config["rootfs"]["diff_ids"])
        variables = (text.partition("=")[::2] for text in settings.get("Env") or ())
        env = {name: value for name, value in variables if name and "\0" not in name + value}
        entry, architecture = bool(settings.get("Entrypoint")), str(config.get("architecture", ""))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ImageArchiveError(f"{archive.path} has no image of Docker or OCI: {error!r}") from None
    if not 0 < len(layers) == len(hashes) <= MOST_LAYERS:
        raise ImageArchiveError(f"{archive.path}: {len(layers)} layers with {len(hashes)} hashes")
    if architecture not in ("", machine):
        raise ImageArchiveError(
            f"{archive.path} has an image for {architecture[:20]!r}, expected {machine}, as this machine is",
            hint=f"docker pull --platform linux/{machine} NAME:TAG, then docker save",
        )
    return ImageContent(digest, tuple(layers), hashes, env, entry)


def _manifest(archive: ImageArchive, index: Any, machine: str, depth: int = 2) -> Any:
    """Return the manifest for `machine` below `index`, which can name further indices."""
    name, digest = _blob(*_one(archive, index["manifests"], machine))
    found, _ = archive.json(name, digest)
    return found if depth == 0 or "manifests" not in found else _manifest(archive, found, machine, depth - 1)


def _one(archive: ImageArchive, images: list[Any], machine: str) -> list[Any]:
    """Return the one of `images` that fits. Without a platform, the only one does."""
    platforms = [each.get("platform") or {} for each in images]
    fits = [
        image
        for image, platform in zip(images, platforms, strict=True)
        if not platform or (platform.get("os"), platform.get("architecture")) == ("linux", machine)
    ]
    if len(fits) != 1:
        found = sorted({f"{each['os']}/{each['architecture']}"[:40] for each in platforms if each})
        about = f" ({', '.join(found[:20])})" if found else ""
        copied = f"skopeo copy oci:{archive.path}:TAG oci-archive:FILE"
        raise ImageArchiveError(
            f"{archive.path} has {len(fits)} images for linux/{machine} among {len(images)}{about}, expected 1",
            hint=f"save one image: {'docker save NAME:TAG -o FILE' if archive.tar else copied}",
        )
    return fits


def _blob(descriptor: Any) -> tuple[str, str]:
    """Return the name and the SHA-256 of a blob of an OCI layout."""
    digest = _hash(descriptor["digest"])
    return f"blobs/sha256/{digest}", digest


def _hash(text: str) -> str:
    found = DIGEST.match(text)
    if found is None:
        raise ValueError(f"digest {text[:80]!r}, expected sha256:…")
    return found[1]
