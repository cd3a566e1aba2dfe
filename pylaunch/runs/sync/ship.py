"""Ship the code of a run: each node receives the manifest, and the content that it lacks."""

import asyncio
import contextlib
import errno
import os
import tarfile
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.manifest import File
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import shown_size
from pylaunch.probe.answers import NotAnAnswerError, decoded
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.sync.tree import CHUNK, Tree
from pylaunch.transport.process import Child, describe_exit, last_line

T = TypeVar("T")

SILENT_S = 300.0
"""A node that accepts no data and sends no answer for this long is given up: its disk hangs."""

LEAVES_S = 3.0
"""For a connection that sends nothing more to end."""

_BLOCK = 512


@dataclass(frozen=True)
class Shipped:
    """Files that one node received."""

    path: str
    """Directory of the tree on the node."""

    files: int
    size: int
    """Bytes of content."""

    is_reused: bool
    """An earlier attempt of the run used this tree; the files that its ranks wrote are there."""


AT_ONCE = 64
"""Nodes that receive code at the same time."""


class NotShippedError(Exception):
    """A node could not receive the code, with the reason."""

    def __init__(self, reason: str, full: str = "") -> None:
        super().__init__(reason)
        room = "quota -s" if os.strerror(errno.EDQUOT) in reason else f"df -h {quoted((full,))}"
        self.hint = room if full else None
        self.implies = frozenset(("workdir-missing", "path-missing", *(("disk-full",) if full else ())))
        """Codes of reasons of the agent that follow from this one. `full`: directory without room for the code."""


async def ship(tree: Tree, fleet: Fleet, cluster: Cluster) -> dict[str, Shipped | NotShippedError]:
    """Ship the code to each host of `cluster`, many at a time; return the result by name."""
    room = asyncio.Semaphore(AT_ONCE)

    async def to(name: str) -> Shipped | NotShippedError:
        async with room:
            try:
                return await _ship(tree, await fleet.channel(name, "ship"))
            except NotShippedError as error:
                return error

    return dict(zip(cluster.names, await asyncio.gather(*map(to, cluster.names)), strict=True))


def shipped_lines(tree: Tree, answers: Mapping[str, Shipped | NotShippedError]) -> Iterator[str]:
    """Return what arrived and where ranks work, one line for nodes with equal results."""
    alike: dict[tuple[bool, int, int, str], list[str]] = {}
    for name, answer in answers.items():
        if isinstance(answer, Shipped):
            alike.setdefault((answer.is_reused, answer.files, answer.size, answer.path), []).append(name)
    is_restart = any(is_reused for is_reused, *_ in alike)
    for (is_reused, files, size, path), names in alike.items():
        received = f"{fold(names)}: received {files} of {len(tree.manifest.blobs)} files ({shown_size(size)})"
        if is_reused:
            yield f"{received}; ranks continue in {path}, with the files that they wrote there"
        elif is_restart:
            yield f"{received} to {path}, a new copy: files that ranks wrote on other hosts are not there"
        else:
            yield f"{received} to {path}"


async def _ship(tree: Tree, child: Child) -> Shipped:
    try:
        try:
            await _in_time(child.send(tree.manifest.encoded))
        except ConnectionError:
            raise await _why(child) from None
        answer = await _answer(child, _Missing)
        wanted = list(tree.manifest.blobs.values())
        places = list(dict.fromkeys(answer.missing))
        if any(place not in range(len(wanted)) for place in places):
            raise NotShippedError(f"it asks for a file that the tree does not have: {max(places)} of {len(wanted)}")
        if places:
            await _send(child, tree.directory, [wanted[place] for place in places])
            child.close_stdin()
        done = await _answer(child, _Received)
        return Shipped(done.tree, len(places), sum(wanted[place].size for place in places), done.reused)
    finally:
        await child.end()


async def _send(child: Child, directory: Path, files: Iterable[File]) -> None:
    """The content of `files` as a tar stream, each under its hash."""
    try:
        for file in files:
            header = tarfile.TarInfo(file.digest)
            header.size = file.size
            await _in_time(child.send(header.tobuf()))
            await _send_content(child, directory, file)
            await _in_time(child.send(bytes(-file.size % _BLOCK)))
        await _in_time(child.send(bytes(2 * _BLOCK)))
    except ConnectionError:
        return  # The answer, or the end of the connection, has the reason.


async def _send_content(child: Child, directory: Path, file: File) -> None:
    left = file.size
    try:
        with (directory / file.path).open("rb") as source:
            while left and (chunk := source.read(min(CHUNK, left))):
                await _in_time(child.send(chunk))
                left -= len(chunk)
    except (FileNotFoundError, PermissionError):
        pass  # The file was readable before, so it has changed.
    except ConnectionError:
        raise
    except OSError as error:
        raise NotShippedError(f"{file.path}: {error.strerror}") from None
    if left:
        raise NotShippedError(f"{file.path} changed while it was being shipped")


async def _in_time(step: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(SILENT_S):
            return await step
    except TimeoutError:
        raise NotShippedError(f"it took no more of the code for {SILENT_S:g} s; does its disk answer?") from None


class _Missing(msgspec.Struct):
    missing: list[int]
    """Places in the manifest's list of contents."""


class _Received(msgspec.Struct):
    tree: str
    reused: bool


class _Refusal(msgspec.Struct):
    error: str
    full: str = ""


async def _answer(child: Child, kind: type[T]) -> T:
    line = await _in_time(child.readline())
    if not line:
        raise await _why(child)
    with contextlib.suppress(NotAnAnswerError):
        refusal = decoded(line, _Refusal)
        raise NotShippedError(refusal.error, refusal.full)
    try:
        return decoded(line, kind)
    except NotAnAnswerError as error:
        raise NotShippedError(f"expected an answer of the agent: {error}") from None


async def _why(child: Child) -> NotShippedError:
    ended = await child.leave(LEAVES_S)
    why = last_line(ended.stderr, default=describe_exit(ended.returncode))
    return NotShippedError(f"the connection ended while code was being shipped: {why}")
