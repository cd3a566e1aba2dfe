"""Code that comes with a run: content by its hash, and a tree of it for each run, where the run may write.

What a run wrote into its tree is never removed: when the tree has had its time, the files that came with it and are
untouched go, and what else is there stays.

    controller                    agent.pyz ship
    the manifest, one line   ──►
                             ◄──  {"missing": [places in the sorted hashes]}
    a tar stream of those    ──►
                             ◄──  {"tree": path, "received": bytes} | {"error": why}
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import stat
import sys
import tarfile
from typing import IO, Iterator

from pylaunch.agent import clean, wire
from pylaunch.agent.layout import AgentError, NodeRoot, RunDirectory

KEPT_TREES = 3
SPARE = 64 << 20
"""Bytes that stay free beside a tree."""

CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a tree is made of, as `pylaunch.model.manifest` writes it."""

    files: list[tuple[str, int, int, str]]
    """Path, permission bits, bytes, SHA-256."""

    links: list[tuple[str, str]]

    @property
    def blobs(self) -> dict[str, int]:
        """Bytes by SHA-256, in the order in which both sides speak of them."""
        return dict(sorted((digest, size) for _, _, size, digest in self.files))


def decoded(line: bytes) -> Manifest:
    """The manifest in `line`. Raises AgentError for one that leads out of its tree."""
    try:
        body = json.loads(line)
        manifest = Manifest([tuple(file) for file in body["files"]], [tuple(link) for link in body["links"]])
        paths = [path for path, *_ in manifest.files] + [path for path, _ in manifest.links]
        digests = [int(digest, 16) for digest in manifest.blobs if len(digest) == 64]
    except (ValueError, KeyError, TypeError):
        raise AgentError("expected the manifest of a tree") from None
    folders = {path[:place] for path in paths for place in range(len(path)) if path[place] == "/"}
    crossing = folders.intersection(paths)
    strange = [path for path in paths if path.startswith("/") or {"", ".", ".."}.intersection(path.split("/"))]
    if strange or crossing or len(set(paths)) < len(paths) or len(digests) < len(manifest.blobs):
        raise AgentError(f"the manifest is not that of a tree: {[*strange, *crossing][:3]}")
    return manifest


def serve(root: NodeRoot, run: str) -> int:
    """Speak the above on stdin and stdout."""
    try:
        _receive(root, root.run(run), sys.stdin.buffer)
    except OSError as error:
        _say({"error": f"the code cannot be kept in {root.path}: {error.strerror}"})
    except tarfile.TarError as error:
        _say({"error": f"the code came broken: {error}"})
    except AgentError as error:
        _say({"error": str(error)})
    return 0


def _receive(root: NodeRoot, directory: RunDirectory, source: IO[bytes]) -> None:
    line = source.readline()
    manifest = decoded(line)
    for made in (root.blobs, root.trees):
        os.makedirs(made, mode=0o700, exist_ok=True)
    if os.path.lexists(root.tree(directory.run)):
        raise AgentError(f"run {directory.run} has its code already")
    with _lock(root, fcntl.LOCK_SH):
        wanted = list(manifest.blobs.items())
        missing = [place for place, (digest, size) in enumerate(wanted) if not _has(root, digest, size)]
        _need_space(root, sum(wanted[place][1] for place in missing) + sum(file[2] for file in manifest.files))
        _say({"missing": missing})
        received = _take(root, manifest, {wanted[place][0] for place in missing}, source) if missing else 0
        _lay_out(root, directory.run, manifest)
        with open(root.manifest(directory.run), "wb") as sink:
            sink.write(line)
    with contextlib.suppress(BlockingIOError), _lock(root, fcntl.LOCK_EX | fcntl.LOCK_NB):
        prune(root)
    _say({"tree": root.tree(directory.run), "received": received})


def _say(body: dict[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps(body).encode() + b"\n")
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def _lock(root: NodeRoot, kind: int) -> Iterator[None]:
    """Shared while content comes, exclusive while it goes. Raises BlockingIOError where that is asked for."""
    held = os.open(os.path.join(root.blobs, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, kind)
        yield
    finally:
        os.close(held)


def _has(root: NodeRoot, digest: str, size: int) -> bool:
    try:
        return os.stat(root.blob(digest)).st_size == size
    except FileNotFoundError:
        return False


def _need_space(root: NodeRoot, needed: int) -> None:
    status = os.statvfs(root.blobs)
    free = status.f_bavail * status.f_frsize
    if free < needed + SPARE:
        told = f"{free / (1 << 20):.0f} MiB free, {(needed + SPARE) / (1 << 20):.0f} MiB wanted for the run's code"
        raise AgentError(f"disk full: {told} in {root.path}")


def _take(root: NodeRoot, manifest: Manifest, missing: set[str], source: IO[bytes]) -> int:
    """Keep what comes by its hash; how many bytes. Raises AgentError for content that is not what it is called."""
    received = 0
    with tarfile.open(fileobj=source, mode="r|") as stream:
        for member in stream:
            content = stream.extractfile(member)
            if member.name not in missing or content is None:
                raise AgentError(f"nobody asked for {member.name[:64]}")
            os.makedirs(os.path.dirname(root.blob(member.name)), mode=0o700, exist_ok=True)
            aside = f"{root.blob(member.name)}.{os.getpid()}"
            found = _copy(content, aside, 0o400)
            if found != member.name:
                os.unlink(aside)
                path = next(path for path, _, _, digest in manifest.files if digest == member.name)
                raise AgentError(f"{path} changed while it was being shipped")
            os.replace(aside, root.blob(member.name))
            received += member.size
            missing.discard(member.name)
    if missing:
        raise AgentError(f"{len(missing)} files did not come")
    return received


def _copy(source: IO[bytes], target: str, mode: int) -> str:
    """Write all of `source` to the new file `target`; the SHA-256 of what was written."""
    digest = hashlib.sha256()
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as sink:
        while True:
            chunk = source.read(CHUNK)
            if not chunk:
                break
            digest.update(chunk)
            sink.write(chunk)
        os.fchmod(sink.fileno(), mode)
    return digest.hexdigest()


def _lay_out(root: NodeRoot, run: str, manifest: Manifest) -> None:
    """Make the tree of `run` from content whose hash is looked at again on the way."""
    aside = root.tree(run) + ".new"
    shutil.rmtree(aside, ignore_errors=True)
    os.makedirs(aside, mode=0o700)
    for path, mode, _, digest in manifest.files:
        target = os.path.join(aside, path)
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        with open(root.blob(digest), "rb") as source:
            if _copy(source, target, mode | stat.S_IWUSR | stat.S_IRUSR) != digest:
                os.unlink(root.blob(digest))
                raise AgentError(f"{root.blob(digest)} had been changed on this host and was removed; start again")
    for path, link in manifest.links:
        target = os.path.join(aside, path)
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        os.symlink(link, target)
    os.rename(aside, root.tree(run))


def placed(task: wire.NodeTask, root: NodeRoot) -> wire.NodeTask:
    """`task` with the tree of its run in place of the word TREE that begins its working directory."""
    first, slash, rest = task.workdir.partition("/")
    if first != wire.TREE:
        return task
    return dataclasses.replace(task, workdir=root.tree(task.run) + slash + rest)


def prune(root: NodeRoot) -> None:
    """Keep the trees of the last runs and of live ones, and the content that they are made of."""
    with os.scandir(root.trees) as entries:
        aged = sorted((entry.stat(follow_symlinks=False).st_mtime, entry.name) for entry in entries)
    names = [name for _, name in aged]
    runs = [name[: -len(".json")] for name in names if name.endswith(".json")]
    for name in names:
        if name.endswith(".new"):
            shutil.rmtree(os.path.join(root.trees, name), ignore_errors=True)
    for run in runs[:-KEPT_TREES]:
        if not clean.is_live(root.run(run)):
            _remove_code(root, run)
    used: set[str] = set()
    for run in runs:
        used.update(_kept_manifest(root, run).blobs)
    for folder, _, files in os.walk(root.blobs):
        for name in files:
            if name not in used and name != "lock":
                os.unlink(os.path.join(folder, name))


def _kept_manifest(root: NodeRoot, run: str) -> Manifest:
    """What the tree of `run` was made of; nothing where that is gone, or was lost with the power."""
    try:
        with open(root.manifest(run), "rb") as source:
            return decoded(source.read())
    except (FileNotFoundError, AgentError):
        return Manifest([], [])


def _remove_code(root: NodeRoot, run: str) -> None:
    """Remove what came with the run and was not touched since; what it wrote stays."""
    manifest, tree = _kept_manifest(root, run), root.tree(run)
    laid_out = os.stat(root.manifest(run)).st_mtime_ns
    for path in [path for path, *_ in manifest.files] + [path for path, _ in manifest.links]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(os.path.join(tree, path))
            if status.st_mtime_ns <= laid_out and not stat.S_ISDIR(status.st_mode):
                os.unlink(os.path.join(tree, path))
    for folder, _, _ in os.walk(tree, topdown=False):
        if os.path.basename(folder) == "__pycache__":
            shutil.rmtree(folder, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):  # Something is in it that the run wrote.
                os.rmdir(folder)
    os.unlink(root.manifest(run))
