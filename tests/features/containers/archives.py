"""Archives of images, written as container engines write them, and as nobody should."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

Entry = tuple[str, bytes, str]
"""Path, type of tar, and the content of a file or the target of a link."""

ENV = ["PATH=/opt/conda/bin:/usr/bin", "LD_LIBRARY_PATH=/opt/lib", "NVIDIA_VISIBLE_DEVICES=all"]


def directory(path: str) -> Entry:
    return (path, tarfile.DIRTYPE, "")


def file(path: str, content: str = "") -> Entry:
    return (path, tarfile.REGTYPE, content)


def symbolic(path: str, target: str) -> Entry:
    return (path, tarfile.SYMTYPE, target)


def hard(path: str, target: str) -> Entry:
    return (path, tarfile.LNKTYPE, target)


def layer(entries: Iterable[Entry], newest: int = 0) -> bytes:
    """Return a layer whose files belong to 1000:1000 with mode 0640; the first ones are older than the others."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for number, (path, kind, text) in enumerate(entries):
            member = tarfile.TarInfo(path)
            member.type, member.uid, member.gid, member.mode = kind, 1000, 1000, 0o640
            content = text.encode() if kind == tarfile.REGTYPE else b""
            member.mtime = max(0, newest - max(0, 10 - number) * 86400)
            member.size, member.linkname = len(content), "" if content else text
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()


def config(layers: Iterable[bytes], machine: str = "amd64") -> bytes:
    """Return the configuration of an image."""
    hashes = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]
    settings = {"Env": ENV, "Entrypoint": ["/entry"]}
    body = {"architecture": machine, "os": "linux", "config": settings, "rootfs": {"diff_ids": hashes}}
    return json.dumps(body).encode()


def docker_archive(path: Path, layers: list[bytes], machine: str = "amd64") -> Path:
    """Write what `docker save` writes."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["torch:mine"], "Layers": names}]
    parts = dict(zip(names, layers, strict=True))
    files = {"config.json": config(layers, machine), "manifest.json": json.dumps(manifest).encode()}
    return _tar(path, {**parts, **files})


def oci_files(layers: list[bytes], compressed: list[bytes] | None = None) -> dict[str, bytes]:
    """Return the files of an OCI layout with images of two platforms; layers are compressed with gzip."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    packed = [gzip.compress(each) for each in layers] if compressed is None else compressed
    image = {"config": blob(config(layers)), "layers": [blob(each) for each in packed]}
    mine = {**blob(json.dumps(image).encode()), "platform": {"os": "linux", "architecture": "amd64"}}
    other = {**blob(b"{}"), "platform": {"os": "linux", "architecture": "arm64"}}
    inner = blob(json.dumps({"manifests": [other, mine]}).encode())
    return {"oci-layout": b"{}", "index.json": json.dumps({"manifests": [inner]}).encode(), **blobs}


def oci_archive(path: Path, files: dict[str, bytes]) -> Path:
    """Write an OCI layout as one archive."""
    return _tar(path, files)


def _tar(path: Path, parts: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
