"""Archives become a squashfs once: its content, its owners, the variables, and archives that are refused."""

import errno
import gzip
import hashlib
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.containers import conversion
from pylaunch.features.containers import local_image as made_here
from pylaunch.features.containers.image_archive import MOST_HEADER, ImageArchive
from pylaunch.features.containers.layers import RootDirectory
from pylaunch.features.containers.local_image import LocalImage, local_image, registry_name
from pylaunch.transport import process
from tests.features.containers.archives import (
    directory,
    docker_archive,
    file,
    hard,
    layer,
    oci_archive,
    oci_files,
    symbolic,
)
from tests.waiting import wait_until

BASE = layer([file("bin/sh", "shell"), hard("bin/bash", "bin/sh"), file("etc/old", "old"), directory("opt")])
UPPER = layer([file("bin/sh", "new shell"), file("etc/.wh.old"), symbolic("lib", "usr/lib"), file("lib/a", "a")])
FILES = {"bin/sh": "new shell", "bin/bash": "shell", "usr/lib/a": "a"}

pytestmark = pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="needs squashfs-tools")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of images."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(made_here, "MACHINE", "amd64")
    return tmp_path / "cache" / "pylaunch" / "images"


def image_of(path: Path) -> LocalImage:
    """Return the image of an archive."""
    found = local_image(str(path))
    assert found is not None
    return found


def files_in(image: LocalImage, directory: Path) -> dict[str, str]:
    """Return the content of each file of a squashfs."""
    subprocess.run(["unsquashfs", "-n", "-d", directory, image.file], check=True, stdout=subprocess.DEVNULL)
    found = [each for each in directory.rglob("*") if each.is_file() and not each.is_symlink()]
    return {str(each.relative_to(directory)): each.read_text() for each in found}


@pytest.mark.parametrize("kind", ["docker", "oci", "layout", "zstd"])
def test_an_archive_becomes_a_squashfs_with_what_its_layers_leave(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "saved"
    if kind == "docker":
        docker_archive(path, [BASE, UPPER])
    elif kind == "layout":
        for name, content in oci_files([BASE, UPPER]).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    elif kind == "zstd" and shutil.which("zstd") is None:
        pytest.skip("needs zstd")
    else:
        packed = [subprocess.run(["zstd", "-q"], input=each, capture_output=True).stdout for each in (BASE, UPPER)]
        oci_archive(path, oci_files([BASE, UPPER], packed if kind == "zstd" else None))
    image = image_of(path)
    assert files_in(image, tmp_path / "root") == FILES
    assert str((tmp_path / "root" / "lib").readlink()) == "usr/lib"
    listed = subprocess.run(["unsquashfs", "-lln", image.file], check=True, capture_output=True, text=True).stdout
    assert "-rw-r----- 1000/1000" in listed
    assert hashlib.sha256(Path(image.file).read_bytes()).hexdigest() == image.sha256
    assert image.env["LD_LIBRARY_PATH"] == "/opt/lib"
    printed = capfd.readouterr().err
    assert "image saved → squashfs" in printed
    assert "the ENTRYPOINT of the image is not run" in printed
    assert image_of(path) == image
    assert "squashfs" not in capfd.readouterr().err, "the second start converts nothing"


def test_the_same_image_in_another_archive_is_not_converted_again(tmp_path: Path) -> None:
    first = image_of(docker_archive(tmp_path / "a", [BASE, UPPER]))
    assert image_of(oci_archive(tmp_path / "b", oci_files([BASE, UPPER]))) == first


@pytest.fixture
def other_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("other_umask")
def test_the_same_image_is_the_same_squashfs_on_every_machine(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower = layer([file(f"opt/{number % 7}/{number}", "x" * number * 97) for number in range(400)], newest=1 << 30)
    first = image_of(docker_archive(tmp_path / "a", [lower, UPPER]))
    begun = int(time.time())
    shutil.rmtree(cache)
    os.umask(0o022)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(conversion, "MKSQUASHFS", (*conversion.MKSQUASHFS, "-processors", "7"))
    wait_until(lambda: int(time.time()) > begun, "another second")
    assert image_of(oci_archive(tmp_path / "b", oci_files([lower, UPPER]))) == first
    listed = subprocess.run(["unsquashfs", "-lln", first.file], check=True, capture_output=True, text=True).stdout
    assert "2004-01-07" in next(line for line in listed.splitlines() if line.endswith("squashfs-root/opt/0/7"))


def test_a_conversion_removes_what_no_start_has_used_for_long(tmp_path: Path) -> None:
    old, used = (image_of(docker_archive(tmp_path / "saved", [layer])) for layer in (BASE, UPPER))
    for image in (old, used):
        os.utime(Path(image.file).with_suffix(".json"), (0, 0))
    assert image_of(tmp_path / "saved") == used
    image_of(docker_archive(tmp_path / "third", [BASE, UPPER]))
    assert (Path(old.file).exists(), Path(used.file).exists()) == (False, True)


def damaged(path: Path, part: bytes) -> Path:
    path.write_bytes(path.read_bytes().replace(part, bytes(len(part)), 1))
    return path


def header(size: int = 0, kind: bytes = tarfile.REGTYPE, pax: dict[str, str] | None = None) -> bytes:
    """Return a header without its content."""
    member = tarfile.TarInfo("x")
    member.type, member.size, member.pax_headers = kind, size, pax or {}
    return member.tobuf(tarfile.PAX_FORMAT if pax else tarfile.GNU_FORMAT)


WRONG = [
    (lambda path: docker_archive(path, [header(1 << 60)]), "'x' has a size of 1152921504606846976 bytes"),
    (lambda path: docker_archive(path, [header(pax={"size": "-5"})]), "'x' has a size of -5 bytes"),
    (lambda path: docker_archive(path, [header(kind=tarfile.GNUTYPE_SPARSE)]), "a sparse file, which images do not"),
    (
        lambda path: docker_archive(path, [header(pax={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})]),
        "a sparse file, which images do not have",
    ),
    (lambda path: docker_archive(path, [header(pax={"GNU.sparse.realsize": "z"})]), "is damaged: "),
    (lambda path: path.write_bytes(header(pax={"GNU.sparse.realsize": "z"}) + bytes(1024)), "is damaged: "),
    (
        lambda path: docker_archive(path, [BASE], "arm64"),
        "has an image for 'arm64', expected amd64, as this machine is",
    ),
    (lambda path: damaged(docker_archive(path, [BASE]), b"shell"), "layer 1 (0/layer.tar) has sha256 "),
    (lambda path: docker_archive(path, [layer([file("../x")])]), "layer 1 (0/layer.tar): '../x' has '..' in its path"),
    (lambda path: docker_archive(path, [BASE[:700]]), "layer 1 (0/layer.tar) is damaged: "),
    (
        lambda path: docker_archive(path, [header(MOST_HEADER + 1, tarfile.GNUTYPE_LONGNAME)]),
        "a header of 1048577 bytes, more than 1048576",
    ),
    (lambda path: docker_archive(path, []), "0 layers with 0 hashes"),
    (lambda path: oci_archive(path, {"index.json": b"{}"}), "has no image of Docker or OCI"),
    (lambda path: oci_archive(path, {"index.json": b"["}), "index.json is not JSON within bounds"),
    (lambda path: oci_archive(path, {"x": b""}), "index.json is missing: is the archive whole?"),
    (lambda path: oci_archive(path, oci_files([BASE], [b"\x1f\x8b" + bytes(99)])), "is damaged: "),
    (
        lambda path: oci_archive(path, {**oci_files([BASE]), "index.json": b'{"manifests": []}'}),
        "has 0 images for linux/amd64 among 0",
    ),
    (lambda path: oci_archive(path, {"manifest.json": b"[{}, {}]"}), "has 2 images for linux/amd64 among 2"),
    (lambda path: path.write_bytes(gzip.compress(BASE)), "is compressed as a whole"),
]


@pytest.mark.parametrize(("write", "error"), WRONG)
def test_an_archive_that_is_none_or_damaged_is_refused_and_leaves_nothing(
    tmp_path: Path, cache: Path, write: object, error: str
) -> None:
    assert callable(write)
    write(tmp_path / "saved.tar")
    with pytest.raises(UsageError) as refused:
        local_image(str(tmp_path / "saved.tar"))
    assert error in refused.value.message
    assert not cache.exists() or [each.name for each in cache.iterdir()] == ["lock"]


def other_bytes(archive: Path) -> None:
    before = archive.stat().st_mtime_ns
    archive.write_bytes(archive.read_bytes().replace(b"new shell", b"NEW SHELL"))
    os.utime(archive, ns=(before, before))


def other_bytes_now(archive: Path) -> None:
    other_bytes(archive)
    os.utime(archive)


AGAIN = r"layer 2 \(1/layer.tar\) has other bytes when it is read again: does its disk fail\?"
CHANGED = "saved.tar changed while it was read"
CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (other_bytes, AGAIN),
    (other_bytes_now, CHANGED),
    *((partial(os.truncate, length=length), CHANGED) for length in (9000, 512, 0)),
]


@pytest.mark.parametrize(("change", "error"), CHANGES)
def test_an_archive_that_differs_when_it_is_read_again_is_refused_and_has_changed_only_if_its_time_or_size_did(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], error: str
) -> None:
    archive = docker_archive(tmp_path / "saved.tar", [BASE, UPPER])
    names = RootDirectory.names

    def between(root: RootDirectory) -> Any:
        change(archive)
        return names(root)

    monkeypatch.setattr(RootDirectory, "names", between)
    with pytest.raises(UsageError, match=error):
        local_image(str(archive))
    assert [each.name for each in cache.iterdir()] == ["lock"]


def test_a_disk_that_cannot_read_an_archive_is_named_with_the_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = docker_archive(tmp_path / "saved.tar", [BASE, UPPER])
    opened = ImageArchive.open

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def of_disk(self: ImageArchive, name: str) -> BinaryIO:
        blob = opened(self, name)
        if name == "1/layer.tar":
            blob.read = fails  # type: ignore[method-assign]
        return blob

    monkeypatch.setattr(ImageArchive, "open", of_disk)
    with pytest.raises(UsageError, match=r"saved.tar: layer 2 \(1/layer.tar\) cannot be read: Input/output error"):
        local_image(str(archive))


def test_what_a_full_disk_leaves_of_a_squashfs_is_removed_and_the_next_start_converts(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "mksquashfs"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho half > \"$2\"\necho 'FATAL ERROR: No space left on device' >&2\nexit 1\n")
    program.chmod(0o755)
    archive = docker_archive(tmp_path / "saved.tar", [BASE])
    with monkeypatch.context() as full:
        full.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        with pytest.raises(UsageError, match=r"mksquashfs cannot write to .*: FATAL ERROR: No space left on device"):
            local_image(str(archive))
    assert [each.name for each in cache.iterdir()] == ["lock"]
    (cache / ".part-killed").mkdir()
    assert Path(image_of(archive).file).is_file()
    assert not list(cache.glob(".part-*"))


def test_a_relative_file_is_sent_as_it_is_and_other_paths_are_those_of_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("torch.sqsh").write_bytes(b"hsqs")
    found = local_image("torch.sqsh")
    assert found == LocalImage(str(tmp_path / "torch.sqsh"), hashlib.sha256(b"hsqs").hexdigest())
    assert local_image(str(tmp_path / "torch.sqsh")) is None
    assert local_image(str(tmp_path)) is None
    assert local_image("/no/such/image") is None


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("docker://pytorch/pytorch", "docker://pytorch/pytorch"),
        ("docker-daemon:torch:mine", "docker-daemon:torch:mine"),
        ("ghcr.io/x/y@sha256:ab", "docker://ghcr.io/x/y@sha256:ab"),
        ("localhost:5000/x:1", "docker://localhost:5000/x:1"),
        ("nvcr.io#nvidia/pytorch:24.12-py3", "docker://nvcr.io/nvidia/pytorch:24.12-py3"),
        ("docker://nvcr.io#nvidia/pytorch:24.12-py3", "docker://nvcr.io/nvidia/pytorch:24.12-py3"),
        ("/images/a:b", None),
        ("./a:b", None),
        ("torch", None),
    ],
)
def test_a_name_of_a_registry_is_distinguished_from_a_path(given: str, name: str | None) -> None:
    assert registry_name(given) == name


SKOPEO = """#!/bin/sh
case "$3" in
  inspect) cat "$(dirname "$0")/digest" ;;
  copy) echo "$5" >> "$(dirname "$0")/copied"; layout=${6#oci:}; cp -r "$(dirname "$0")/layout" "${layout%:image}" ;;
esac
"""


def test_a_tag_is_read_once_for_each_digest_and_one_that_moved_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    programs = tmp_path / "bin"
    for name, content in oci_files([BASE, UPPER]).items():
        (programs / "layout" / name).parent.mkdir(parents=True, exist_ok=True)
        (programs / "layout" / name).write_bytes(content)
    (programs / "skopeo").write_text(SKOPEO)
    (programs / "skopeo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (programs / "digest").write_text("sha256:" + "a" * 64)
    first = local_image("pytorch/pytorch:2")
    assert first is not None
    assert local_image("pytorch/pytorch:2") == first
    assert (programs / "copied").read_text() == "docker://pytorch/pytorch@sha256:" + "a" * 64 + "\n"
    assert "now" not in capfd.readouterr().err
    (programs / "digest").write_text("sha256:" + "b" * 64)
    assert local_image("pytorch/pytorch:2") == first, "the same image behind another digest"
    assert f"docker://pytorch/pytorch:2 is sha256:{'b' * 64} now; the last start had" in capfd.readouterr().err
    by_digest = f"pytorch/pytorch@sha256:{'a' * 64}"
    assert local_image(by_digest) == first
    (programs / "skopeo").write_text("#!/bin/sh\nexit 1\n")
    assert local_image(by_digest) == first, "a digest that the cache has needs no registry"


DOCKER = """#!/bin/sh
case "$*" in
  "image inspect --format {{.Id}} -- torch:mine"|*"-- torch@sha256:ab") echo sha256:id ;;
  "save --output "*" sha256:id") cp "$(dirname "$0")/../saved.tar" "$3" ;;
  *) echo "Error: No such image: $6" >&2; exit 1 ;;
esac
"""


def test_an_image_of_a_daemon_is_read_with_docker_which_knows_the_daemon_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(DOCKER)
    (tmp_path / "bin" / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    image = image_of(docker_archive(tmp_path / "saved.tar", [BASE, UPPER]))
    assert local_image("docker-daemon:torch:mine") == image
    assert local_image("docker-daemon:torch@sha256:ab") == image, "docker save knows the id"
    (tmp_path / "saved.tar").unlink()
    assert local_image("docker-daemon:torch:mine") == image
    with pytest.raises(UsageError) as refused:
        local_image("docker-daemon:other")
    assert "No such image: other" in str(refused.value.evidence)


def test_a_name_without_skopeo_is_refused_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "program_path", lambda name: None)
    with pytest.raises(UsageError, match="skopeo not found") as refused:
        local_image("pytorch/pytorch:2")
    assert refused.value.hint == "apt install skopeo (on this machine)"
