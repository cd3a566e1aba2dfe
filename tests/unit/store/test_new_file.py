"""A new file replaces nothing, and nothing of it stays when it cannot be written."""

import errno
import os
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.store.files import new_file


def test_a_file_is_written_for_its_user_alone(tmp_path: Path) -> None:
    with new_file(tmp_path / "a") as out:
        out.write(b"content")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_file_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(UsageError, match="exists already"), new_file(tmp_path / "a") as out:
        out.write(b"after")
    assert (tmp_path / "a").read_bytes() == b"before"


def test_nothing_stays_of_a_file_that_a_full_disk_or_an_interrupt_cut_off(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a: cannot be written: No space left on device"), new_file(tmp_path / "a"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "b"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
