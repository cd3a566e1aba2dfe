"""Code shipped with a run (`--sync`): file contents stored by hash, and one tree per run, shared by its attempts.

The first attempt on this node creates the tree; later attempts find it as the previous one left it, as under torchrun.
Files that ranks wrote are never removed: pruning an old tree removes only shipped files that are unchanged. The change
time (ctime) decides that, because a copied file can have an old modification time.

    controller                    agent.pyz ship
    the manifest, one line   ──►
                             ◄──  {"missing": [indices in the sorted hashes]}
    a tar stream of those    ──►
                             ◄──  {"tree": path, "reused": bool} | {"error": why}
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
import sys
from typing import IO, Any, Iterator

from pylaunch import protocol
from pylaunch.agent.shared import rank_files, run_processes
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.base.layout import AgentError, NodeRoot, RunDirectory, first_run

KEPT_TREES = 3
SPARE = 64 << 20
"""Bytes that must remain free after a tree is created."""

CHUNK = 1 << 20
MAX_MANIFEST = 64 << 20


@dataclass(frozen=True)
class TreeManifest:
    """Files and links of a tree, as `pylaunch.model.manifest` writes them."""

    files: list[tuple[str, int, int, str]]
    """Path, permission bits, bytes, SHA-256."""

    links: list[tuple[str, str]]

    @property
    def blobs(self) -> dict[str, int]:
        """Size of each content by SHA-256, in the order that indices on the wire refer to."""
        return dict(sorted((digest, size) for _, _, size, digest in self.files))


PATH_MAX = 4096
"""Characters of a path (linux/limits.h): the folders of a longer one would take its length squared."""

NO_MANIFEST = TreeManifest([], [])


def decoded(line: bytes) -> TreeManifest:
    """Decode a manifest. Raises AgentError for a malformed one, or one with paths outside its tree."""
    try:
        body = untrusted_json.parse_object(line, MAX_MANIFEST)
        manifest = TreeManifest([_file(*file) for file in body["files"]], [_link(*link) for link in body["links"]])
        paths = [path for path, *_ in manifest.files] + [path for path, _ in manifest.links]
        digests = [int(digest, 16) for digest in manifest.blobs if len(digest) == 64]
    except (ValueError, KeyError, TypeError):
        raise AgentError("expected the manifest of a tree") from None
    folders = {path[:place] for path in paths for place in range(len(path)) if path[place] == "/"}
    crossing = folders.intersection(paths)
    strange = [path for path in paths if path.startswith("/") or {"", ".", ".."}.intersection(path.split("/"))]
    strange += [path for path in paths if "\0" in path]
    if strange or crossing or len(set(paths)) < len(paths) or len(digests) < len(manifest.blobs):
        raise AgentError(f"the manifest is not that of a tree: {[*strange, *crossing][:3]}")
    return manifest


def _file(path: Any, mode: Any, size: Any, digest: Any) -> tuple[str, int, int, str]:
    if not (isinstance(path, str) and isinstance(digest, str) and isinstance(mode, int) and isinstance(size, int)):
        raise TypeError(path)
    if not 0 <= mode <= 0o777 or size < 0 or len(path) > PATH_MAX:
        raise ValueError(mode)
    return path, mode, size, digest


def _link(path: Any, target: Any) -> tuple[str, str]:
    if not isinstance(path, str) or not isinstance(target, str):
        raise TypeError(path)
    if not target or "\0" in target or len(path) > PATH_MAX:
        raise ValueError(target)
    return path, target


def serve(root: NodeRoot, run: str) -> int:
    """Receive the code of `run` on stdin; return the exit code."""
    import tarfile  # noqa: PLC0415 -- 2 ms that only this verb costs

    try:
        _receive(root, root.run(run), sys.stdin.buffer)
    except OSError as error:
        full = root.path if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        with contextlib.suppress(OSError):
            _prune_unless_used(root)  # What has arrived would keep the disk full.
        _send({"error": f"the code cannot be kept in {root.path}: {error.strerror}", "full": full})
    except tarfile.TarError as error:
        _send({"error": f"the code arrived damaged: {error}"})
    except AgentError as error:
        _send({"error": str(error)})
    return 0


def _receive(root: NodeRoot, directory: RunDirectory, source: IO[bytes]) -> None:
    line = source.readline(MAX_MANIFEST + 1)
    manifest = decoded(line)
    for made in (root.blobs, root.trees):
        os.makedirs(made, mode=0o700, exist_ok=True)
    with _lock(root, fcntl.LOCK_SH):
        is_reused = _is_reused(root, directory.run, manifest)
        wanted = list(manifest.blobs.items())
        missing = [place for place, (digest, size) in enumerate(wanted) if not _has(root, digest, size)]
        laid_out = 0 if is_reused else sum(file[2] for file in manifest.files)
        _require_space(root, sum(wanted[place][1] for place in missing) + laid_out)
        _send({"missing": missing})
        if missing:
            _receive_content(root, manifest, dict(wanted[place] for place in missing), source)
        if is_reused and _kept_manifest(root, directory.run) != manifest:
            _put_missing(root, root.tree(directory.run), manifest)
            rank_files.replace(root.manifest(directory.run), line)
            os.utime(root.manifest(directory.run), ns=(0, 0))  # What the run wrote is not that of the tree.
        elif not is_reused:
            _lay_out(root, directory.run, manifest, line)
    _prune_unless_used(root)
    _send({"tree": root.tree(directory.run), "reused": is_reused and _has_worked(root, directory)})


def _prune_unless_used(root: NodeRoot) -> None:
    with contextlib.suppress(BlockingIOError), _lock(root, fcntl.LOCK_EX | fcntl.LOCK_NB):
        prune(root)


def _has_worked(root: NodeRoot, directory: RunDirectory) -> bool:
    """Return whether an earlier attempt ran on this node."""
    run = first_run(directory.run)
    attempts = [each.run for each in root.all_runs() if first_run(each.run) == run]
    return bool(set(attempts) - {directory.run})


def _is_reused(root: NodeRoot, run: str, manifest: TreeManifest) -> bool:
    """Return whether an earlier attempt created the tree of `run`. Raises AgentError if its manifest differs."""
    if not os.path.lexists(root.tree(run)):
        return False
    kept = _kept_manifest(root, run)
    if kept not in (manifest, NO_MANIFEST):
        raise AgentError(f"run {first_run(run)} has other code on this node: {root.tree(run)}")
    return True


def _send(body: dict[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps(body).encode() + b"\n")
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def _lock(root: NodeRoot, kind: int) -> Iterator[None]:
    """Lock the content: shared to add, exclusive to remove. Raises BlockingIOError if `kind` has LOCK_NB."""
    held = rank_files.open_regular(os.path.join(root.blobs, "lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, kind)
        yield
    finally:
        os.close(held)


def _has(root: NodeRoot, digest: str, size: int) -> bool:
    try:
        status = os.lstat(root.blob(digest))
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def _require_space(root: NodeRoot, needed: int) -> None:
    status = os.statvfs(root.blobs)
    free = status.f_bavail * status.f_frsize
    if free < needed + SPARE:
        space = f"{free >> 20} MiB free, {(needed + SPARE) >> 20} MiB wanted for the run's code"
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({space})")


def _receive_content(root: NodeRoot, manifest: TreeManifest, missing: dict[str, int], source: IO[bytes]) -> None:
    """Store the contents of a tar stream by hash, until none of `missing` (hash → size) is missing.

    Raises AgentError for content of another hash."""
    import tarfile  # noqa: PLC0415 -- 2 ms that only this verb costs

    with tarfile.open(fileobj=source, mode="r|") as stream:
        for member in stream:
            content = stream.extractfile(member)
            if member.name not in missing or content is None:
                raise AgentError(f"received content that was not requested: {member.name[:64]}")
            os.makedirs(os.path.dirname(root.blob(member.name)), mode=0o700, exist_ok=True)
            aside = f"{root.blob(member.name)}.{os.getpid()}"
            found = _copy(content, aside, 0o400)
            if found != member.name:
                os.unlink(aside)
                path = next(path for path, _, _, digest in manifest.files if digest == member.name)
                raise AgentError(f"{path} changed while it was being shipped")
            os.replace(aside, root.blob(member.name))
    absent = [digest for digest, size in missing.items() if not _has(root, digest, size)]
    if absent:
        raise AgentError(f"{len(absent)} files did not arrive")


def _copy(source: IO[bytes], target: str, mode: int) -> str:
    """Copy `source` to the new file `target`; return the SHA-256 of the content."""
    digest = hashlib.sha256()
    with open(rank_files.open_regular(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as sink:
        for chunk in iter(lambda: source.read(CHUNK), b""):
            digest.update(chunk)
            sink.write(chunk)
        os.fchmod(sink.fileno(), mode)
    return digest.hexdigest()


def _lay_out(root: NodeRoot, run: str, manifest: TreeManifest, line: bytes) -> None:
    """Create the tree of `run` from stored content, verifying each hash again."""
    aside = root.tree(run) + ".new"
    rank_files.remove(aside)
    _put_missing(root, aside, manifest)
    rank_files.replace(root.manifest(run), line)
    os.rename(aside, root.tree(run))


def _put_missing(root: NodeRoot, tree: str, manifest: TreeManifest) -> None:
    """Add the files that `tree` lacks. Existing ones stay, such as those of a run whose tree was pruned."""
    os.makedirs(tree, mode=0o700, exist_ok=True)
    for path, mode, _, digest in manifest.files:
        if not os.path.lexists(os.path.join(tree, path)):
            _put(root, os.path.join(tree, path), mode, digest)
    for path, link in manifest.links:
        if not os.path.lexists(os.path.join(tree, path)):
            os.makedirs(os.path.dirname(os.path.join(tree, path)), mode=0o755, exist_ok=True)
            os.symlink(link, os.path.join(tree, path))


def _is_untouched(path: str, laid_out: int) -> bool:
    """`path` is a file or link of the tree itself that nothing has changed since `laid_out`."""
    status = os.lstat(path)
    is_linked_away = os.path.realpath(os.path.dirname(path)) != os.path.dirname(path)
    return status.st_ctime_ns <= laid_out and not stat.S_ISDIR(status.st_mode) and not is_linked_away


def _put(root: NodeRoot, target: str, mode: int, digest: str) -> None:
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    aside = os.path.join(
        os.path.dirname(target), f".pylaunch.{os.getpid()}"
    )  # The name of `target` may be the longest.
    try:
        with open(rank_files.open_regular(root.blob(digest)), "rb") as source:
            if _copy(source, aside, mode | stat.S_IWUSR | stat.S_IRUSR) != digest:
                os.unlink(root.blob(digest))
                raise AgentError(f"{root.blob(digest)} had been changed on this host and was removed; start again")
        os.replace(aside, target)
    finally:
        rank_files.remove(aside)  # The disk may be full: an attempt after this one finds no half of a file.


def with_tree(task: protocol.NodeTask, root: NodeRoot) -> protocol.NodeTask:
    """Replace TREE at the start of the working directory with the tree of the run."""
    first, slash, rest = task.workdir.partition("/")
    if first != protocol.TREE:
        return task
    return replace(task, workdir=root.tree(task.run) + slash + rest)


def prune(root: NodeRoot) -> None:
    """Remove trees other than those of live runs and of the newest ones, and content that no tree uses."""
    with os.scandir(root.trees) as entries:
        found = [(entry.stat(follow_symlinks=False), entry.name) for entry in entries]
    names = [name for _, name in found]
    aged = sorted((status.st_mtime, name) for status, name in found if stat.S_ISREG(status.st_mode))
    runs = [name[: -len(".json")] for _, name in aged if name.endswith(".json")]
    for name in names:
        if name.endswith(".new"):
            rank_files.remove(os.path.join(root.trees, name))
    live = {first_run(directory.run) for directory in root.all_runs() if run_processes.is_live(directory)}
    for run in runs[:-KEPT_TREES]:
        if run not in live:
            _remove_code(root, run)
    used: set[str] = set()
    for run in runs:
        used.update(_kept_manifest(root, run).blobs)
    for folder, _, files in os.walk(root.blobs):
        for name in files:
            if name not in used and name != "lock":
                os.unlink(os.path.join(folder, name))


def _kept_manifest(root: NodeRoot, run: str) -> TreeManifest:
    """Return the manifest of the tree of `run`; an empty one if it is missing or damaged."""
    try:
        return decoded(rank_files.read_whole(root.manifest(run), MAX_MANIFEST))
    except (OSError, AgentError):
        return NO_MANIFEST


def _remove_code(root: NodeRoot, run: str) -> None:
    """Remove unchanged shipped files of `run`; keep files that the run wrote."""
    manifest, tree = _kept_manifest(root, run), root.tree(run)
    laid_out = os.lstat(root.manifest(run)).st_mtime_ns
    for path in [path for path, *_ in manifest.files] + [path for path, _ in manifest.links]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if _is_untouched(os.path.join(tree, path), laid_out):
                os.unlink(os.path.join(tree, path))
    for folder, _, _ in os.walk(tree, topdown=False):
        if os.path.basename(folder) == "__pycache__":
            rank_files.remove(folder)
        else:
            with contextlib.suppress(OSError):  # The run wrote something in it.
                os.rmdir(folder)
    os.unlink(root.manifest(run))
