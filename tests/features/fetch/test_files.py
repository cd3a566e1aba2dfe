"""Files are written below one directory, whatever links are there; answers that are no file are refused."""

import io
from pathlib import Path

import pytest

from pylaunch.features.fetch.choice import Fetched, NodeFile
from pylaunch.features.fetch.local_files import Presence, arrived, partial, presence
from pylaunch.features.fetch.node_files import NodeStoppedError, NodeStream, NotSentError

TIME = 1_780_000_000_123_456_789


def wanted(*place: str, size: int = 4, mtime_ns: int = TIME) -> Fetched:
    return Fetched("n1", NodeFile("/".join(place), size, mtime_ns, 7, ""), place)


def test_a_file_continues_where_it_was_interrupted_and_has_its_time_at_the_end(tmp_path: Path) -> None:
    each = wanted("ckpt", "a.pt")
    with partial(tmp_path / "to", each) as file:
        file.write(b"ab")
    assert presence(tmp_path / "to", each) is Presence.ABSENT
    assert arrived(tmp_path / "to", each) == 2
    assert arrived(tmp_path / "to", wanted("ckpt", "a.pt", mtime_ns=TIME + 1)) == 0
    with partial(tmp_path / "to", each) as file:
        file.write(b"cd")
        file.complete()
    assert (tmp_path / "to/ckpt/a.pt").read_bytes() == b"abcd"
    assert presence(tmp_path / "to", each) is Presence.SAME
    assert presence(tmp_path / "to", wanted("ckpt", "a.pt", mtime_ns=TIME + 1)) is Presence.DIFFERENT
    assert [path.name for path in (tmp_path / "to/ckpt").iterdir()] == ["a.pt"]


def test_no_link_leads_out_of_the_directory(tmp_path: Path) -> None:
    outside, to = tmp_path / "outside", tmp_path / "to"
    outside.mkdir()
    to.mkdir()
    (to / "ckpt").symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"), partial(to, wanted("ckpt", "a.pt")):
        pass
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        arrived(to, wanted("ckpt", "a.pt"))
    (to / f".b.pt.4-{TIME}.part").symlink_to(outside / "secret")
    with pytest.raises(OSError, match="symbolic"), partial(to, wanted("b.pt")):
        pass
    (to / "c.pt").symlink_to(outside / "secret")
    assert presence(to, wanted("c.pt")) is Presence.DIFFERENT
    assert list(outside.iterdir()) == []


def test_a_longer_rest_of_an_earlier_transfer_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / f".a.pt.4-{TIME}.part").write_bytes(b"12345")
    with pytest.raises(OSError, match="no part of this file"), partial(tmp_path, wanted("a.pt")):
        pass


def contents(sent: bytes, left: int) -> bytes:
    return b"".join(NodeStream(io.BytesIO(sent).read).contents(left))


def test_files_follow_each_other() -> None:
    node = NodeStream(io.BytesIO(b"2\nab1\ncend\nerror gone\nend\n").read)
    assert b"".join(node.contents(3)) == b"abc"
    with pytest.raises(NotSentError, match="gone"):
        list(node.contents(3))
    assert list(node.contents(0)) == []


@pytest.mark.parametrize(
    "sent", [b"4\nabcd", b"0\n", b"-1\n", b"x\n", b"\xb2\n", b"1" * 5000, b"2\nabend\n", b"2\na", b""]
)
def test_a_node_that_sends_anything_else_is_heard_no_further(sent: bytes) -> None:
    with pytest.raises(NodeStoppedError):
        contents(sent, 3)


def test_its_reasons_are_shown_without_control_characters() -> None:
    with pytest.raises(NotSentError) as error:
        contents(b"error \x1b[2Jgone\n", 3)
    assert error.value.message == r"\x1b[2Jgone"
