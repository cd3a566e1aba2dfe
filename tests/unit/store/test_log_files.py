"""Log files as they lie around: compressed, cut, binary, in directories."""

from __future__ import annotations

import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.store.log_files import files_of
from pylaunch.workflows.explain_logs import LogExplanation, explain_files

CRASH = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: boom\n'


def classes(explained: LogExplanation) -> list[str]:
    return [cause.cause.id for cause in explained.verdict.causes]


def test_a_compressed_log_reads_as_the_plain_one(tmp_path: Path) -> None:
    (tmp_path / "rank_3.log").write_text(CRASH)
    (tmp_path / "rank_3.log.gz").write_bytes(gzip.compress(CRASH.encode()))
    for name in ("rank_3.log", "rank_3.log.gz"):
        explained = explain_files([tmp_path / name])
        assert classes(explained) == ["program-error"]
        assert explained.verdict.causes[0].ranks == (3,)
        assert explained.notes == ()


def test_a_compressed_log_that_breaks_off_is_judged_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = gzip.compress(CRASH.encode() * 3)
    (tmp_path / "cut.gz").write_bytes(whole[:-9])
    explained = explain_files([tmp_path / "cut.gz"])
    assert len(explained.notes) == 1
    assert "breaks off" in explained.notes[0]


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\x00" * 5000, bytes(range(256)) * 9000, b"\x1f\x8b", b"\x1f\x8b\x08junk" * 99, b"error " * 600_000],
    ids=["empty", "newline", "zeros", "all bytes", "gzip magic", "no gzip", "one long line"],
)
def test_junk_shows_no_failure(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.log").write_bytes(content)
    assert classes(explain_files([tmp_path / "x.log"])) == []


def test_a_directory_stands_for_its_logs_and_not_for_its_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "3.err").write_text(CRASH)
    (tmp_path / "n1" / "model.pt").write_bytes(b"PK")
    assert [path.name for path in files_of(tmp_path)] == ["3.err"]
    (cause,) = explain_files([tmp_path]).verdict.causes
    assert (cause.host, cause.ranks) == ("n1", (3,))


def test_a_named_pipe_is_not_opened_to_list_it(tmp_path: Path) -> None:
    pipe = tmp_path / "rank_3.log"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        listed = pool.submit(files_of, pipe)
        try:
            assert listed.result(60) == [pipe]
        finally:
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # Ends a reader that waits for a writer.


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    """The writer opens the pipe once, as a process substitution of a shell does, and gets no SIGPIPE."""
    pipe = tmp_path / "rank_3.log"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(pipe.write_text, CRASH * 5000)
        explained = explain_files([pipe])
        assert written.result(60) == len(CRASH * 5000)
    assert classes(explained) == ["program-error"]
    assert explained.lines == 15_000
    assert explained.notes == ()


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        explain_files([tmp_path / "none.log"])


def test_a_traceback_across_blocks_is_seen_whole(tmp_path: Path) -> None:
    filler = "step 1 loss 2.0\n" * 64_000
    for shift in range(0, 200, 40):
        (tmp_path / "x.log").write_text(filler + "y" * shift + "\n" + CRASH)
        assert classes(explain_files([tmp_path / "x.log"])) == ["program-error"]
