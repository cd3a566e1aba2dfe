"""Descriptions of files by the node that has them: paths outside the copies are refused."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pylaunch.agent.piped import piece_source
from pylaunch.agent.piped.piece_source import ChangedSourceError, PieceSource, SourceError, SourceTree
from pylaunch.broadcast.node_source import SourceMessage, payload_of
from pylaunch.broadcast.payload import read_payload
from pylaunch.probe.answers import NotAnAnswerError

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def described(**fields: Any) -> list[SourceMessage]:
    return [msgspec.convert(fields, SourceMessage)]


def test_a_node_describes_its_files_as_the_controller_describes_its_own(tmp_path: Path) -> None:
    tree = tmp_path / "model"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/weights").write_bytes(b"x" * 5000)
    (tree / "empty").touch()
    (tree / "link").symlink_to("sub/weights")
    source = PieceSource([(str(tree), "copy")])
    found = payload_of([msgspec.convert(each, SourceMessage) for each in source.open()], "/data", ["copy"])
    own = read_payload([tree], "/data/copy")
    assert found.order == own.order
    (tree / "sub/weights").write_bytes(b"y" * 5000)
    with pytest.raises(ChangedSourceError, match="weights changed while it was read"):
        next(source.parts(0))


@pytest.mark.parametrize(
    "path", ["../etc/passwd", "/etc/passwd", "copy/../x", "copy//x", "copy/", "other", "copy/sub/x", "copy/.", "copy\0"]
)
def test_a_path_outside_the_copy_is_refused(path: str) -> None:
    with pytest.raises(NotAnAnswerError):
        payload_of(described(directories=["copy"], files=[(path, 0o644, 0, EMPTY)]), "/data", ["copy"])


def test_a_file_below_a_link_and_one_that_is_there_twice_are_refused() -> None:
    for files, links in (
        ([("copy/link/x", 0o644, 0, EMPTY)], [("copy/link", "/etc")]),
        ([("copy/x", 0o644, 0, EMPTY)] * 2, []),
        ([("copy/x", 0o644, 0, EMPTY)], [("copy/x", "/etc")]),
    ):
        with pytest.raises(NotAnAnswerError):
            payload_of(described(directories=["copy"], files=files, links=links), "/data", ["copy"])


def test_pieces_that_do_not_fit_the_files_are_refused() -> None:
    with pytest.raises(NotAnAnswerError, match="0 pieces for 5 bytes"):
        payload_of(described(files=[("copy", 0o644, 5, EMPTY)]), "/data", ["copy"])


def test_more_files_than_a_push_may_have_are_an_error_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piece_source, "MOST_FILES", 3)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(SourceError, match="more than 3 files: push an archive of them"):
        SourceTree().add(str(tmp_path), "copy")
