"""Answers of a node that are no file."""

from __future__ import annotations

import io

import pytest

from pylaunch.features.fetch.node_files import NodeStoppedError, NodeStream, NotSentError


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
