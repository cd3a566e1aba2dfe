"""Log files as they lie around: compressed, cut, binary, in directories."""

import gzip
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.errors import UsageError
from pylaunch.features.explain import log_files
from pylaunch.features.explain.log_files import files_of
from pylaunch.features.explain.work import LogExplanation, explain_files

CRASH = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: boom\n'


def classes(explained: LogExplanation) -> list[str]:
    return [cause.cause.id for cause in explained.verdict.causes]


def test_a_compressed_log_reads_as_the_plain_one(tmp_path: Path) -> None:
    (tmp_path / "rank_3.log").write_text(CRASH)
    (tmp_path / "rank_3.log.gz").write_bytes(gzip.compress(CRASH.encode()))
    for name in ("rank_3.log", "rank_3.log.gz"):
        explained = explain_files([tmp_path / name])
        assert classes(explained) == ["unexplained"]
        assert explained.verdict.causes[0].ranks == (3,)
        assert explained.notes == ()


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


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    """The writer opens the pipe once, as a process substitution of a shell does, and gets no SIGPIPE."""
    pipe = tmp_path / "rank_3.log"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(pipe.write_text, CRASH * 5000)
        explained = explain_files([pipe])
        assert written.result(60) == len(CRASH * 5000)
    assert classes(explained) == ["unexplained"]
    assert explained.lines == 15_000
    assert explained.notes == ()


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        explain_files([tmp_path / "none.log"])


def test_a_traceback_across_blocks_is_seen_whole(tmp_path: Path) -> None:
    filler = "step 1 loss 2.0\n" * 64_000
    for shift in range(0, 200, 40):
        (tmp_path / "x.log").write_text(filler + "y" * shift + "\n" + CRASH)
        assert classes(explain_files([tmp_path / "x.log"])) == ["unexplained"]


@pytest.mark.parametrize("end", ["\n", "\r"], ids=["line", "progress bar"])
def test_a_line_is_read_to_its_bound_and_the_lines_after_it_whole(tmp_path: Path, end: str) -> None:
    long = "x" * (5 << 20)
    (tmp_path / "x.log").write_text(f"{long}{end}\n{CRASH}{long}")
    explained = explain_files([tmp_path / "x.log"])
    assert classes(explained) == ["unexplained"]
    assert explained.size < 1 << 18
    assert explained.notes == (f"{tmp_path}/x.log: of lines with more than 64 KiB, the rest is not read",)


@given(
    st.lists(st.text("ab\r\n", max_size=30).map(str.encode), max_size=8), st.integers(1, 9),
)  # fmt: skip
def test_lines_within_their_bound_are_as_they_were(pieces: list[bytes], longest: int) -> None:
    whole = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_files, "LONGEST_LINE", longest)
        found = b"".join(log_files._with_short_lines(iter(pieces), "x", lambda _: None))
    expected = [line[:longest] for line in re.split(rb"[\r\n]", whole)]
    assert re.split(rb"[\r\n]", found) == expected


def test_a_compressed_bomb_and_an_endless_file_are_read_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "LONGEST_FILE", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"step 1\n" * 1_000_000))
    for path in (tmp_path / "bomb.gz", Path("/dev/zero")):
        explained = explain_files([path])
        assert explained.size <= 1 << 20
        assert any(f"{path}: only the first 1.0 MiB are read" in note for note in explained.notes)


def test_work_that_takes_long_shows_its_progress(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("step 1 loss 2.0\n" * 400_000)
    now = [0.0]
    notes: list[str] = []

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    explain_files([tmp_path / "x.log"], on_note=notes.append, clock=clock)
    assert notes == [f"reading {tmp_path}/x.log: {each} so far" for each in ("2.0 MiB", "6.1 MiB")]
