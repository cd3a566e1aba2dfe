import struct
from pathlib import Path

import pytest

from pylaunch.runtime import progress


@pytest.fixture
def step_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "0.step"
    monkeypatch.setenv(progress.VARIABLE, str(path))
    progress._record.cache_clear()
    return path


def test_the_last_step_is_read_while_the_rank_lives(step_file: Path) -> None:
    assert not step_file.exists()
    for number in (1, 2, 41):
        progress.step(number)
    mark = progress.decoded(step_file.read_bytes())
    assert mark is not None
    assert (mark.step, mark.total) == (41, 0)
    progress.step(42, total=1000)
    mark = progress.decoded(step_file.read_bytes())
    assert mark is not None
    assert (mark.step, mark.total) == (42, 1000)


def test_a_record_that_is_half_written_says_nothing(step_file: Path) -> None:
    step_file.write_bytes(struct.pack("<qdqq", 8, 1.0, 0, 7))
    assert progress.decoded(step_file.read_bytes()) is None
    step_file.write_bytes(b"short")
    assert progress.decoded(step_file.read_bytes()) is None


def test_a_file_that_cannot_be_made_costs_the_marks_and_not_the_training(
    step_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(progress.VARIABLE, str(step_file / "not" / "there"))
    progress.step(1)


def test_without_a_launcher_nothing_happens(step_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(progress.VARIABLE)
    progress.step(1)
    assert not step_file.exists()
