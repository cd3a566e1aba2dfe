"""Files are written below one directory, whatever links are there; answers that are no file are refused."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from pylaunch.features.fetch import node_files
from pylaunch.features.fetch.node_files import NodeStoppedError, NotSentError
from pylaunch.features.fetch.places import Fetched, NodeFile, is_here, write_file

TIME = 1_780_000_000_123_456_789


def wanted(*place: str, size: int = 4, mtime_ns: int = TIME) -> Fetched:
    return Fetched("n1", NodeFile("/".join(place), size, mtime_ns, 7), place)


def write(directory: Path, each: Fetched, contents: Iterable[bytes]) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for content in contents:
            yield content

    asyncio.run(write_file(directory, each, chunks()))


def test_a_file_is_whole_and_has_its_time_or_is_not_there(tmp_path: Path) -> None:
    each, to = wanted("ckpt", "a.pt"), tmp_path / "to"

    async def broken() -> AsyncIterator[bytes]:
        yield b"ab"
        raise NotSentError("it changed")

    with pytest.raises(NotSentError):
        asyncio.run(write_file(to, each, broken()))
    assert is_here(to, each) is None
    assert list((to / "ckpt").iterdir()) == []
    (to / "ckpt/.a.pt.part").write_bytes(b"of a command that was killed")
    write(to, each, [b"ab", b"cd"])
    assert (to / "ckpt/a.pt").read_bytes() == b"abcd"
    assert is_here(to, each) is True
    assert is_here(to, wanted("ckpt", "a.pt", mtime_ns=TIME + 1)) is False
    assert [path.name for path in (to / "ckpt").iterdir()] == ["a.pt"]


def test_no_link_leads_out_of_the_directory(tmp_path: Path) -> None:
    outside, to = tmp_path / "outside", tmp_path / "to"
    outside.mkdir()
    to.mkdir()
    (to / "ckpt").symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        write(to, wanted("ckpt", "a.pt"), [b"abcd"])
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        is_here(to, wanted("ckpt", "a.pt"))
    (to / ".b.pt.part").symlink_to(outside / "secret")
    write(to, wanted("b.pt"), [b"abcd"])
    (to / "c.pt").symlink_to(outside / "secret")
    assert is_here(to, wanted("c.pt")) is False
    assert list(outside.iterdir()) == []


def reader(sent: bytes) -> Callable[[int], Awaitable[bytes]]:
    source = io.BytesIO(sent)

    async def read(most: int) -> bytes:
        return source.read(most)

    return read


def contents(read: Callable[[int], Awaitable[bytes]], left: int) -> bytes:
    async def work() -> bytes:
        return b"".join([each async for each in node_files.contents(read, left)])

    return asyncio.run(work())


def test_files_follow_each_other_and_a_reason_is_shown_without_control_characters() -> None:
    read = reader(b"2\nab1\ncend\nerror \x1b[2Jgone\nend\n")
    assert contents(read, 3) == b"abc"
    with pytest.raises(NotSentError) as error:
        contents(read, 3)
    assert error.value.message == r"\x1b[2Jgone"
    assert contents(read, 0) == b""


@pytest.mark.parametrize(
    "sent", [b"4\nabcd", b"0\n", b"-1\n", b"x\n", b"\xb2\n", b"1" * 5000, b"2\nabend\n", b"2\na", b""]
)
def test_a_node_that_sends_anything_else_is_heard_no_further(sent: bytes) -> None:
    with pytest.raises(NodeStoppedError):
        contents(reader(sent), 3)
