"""The directory whose file system explains an exception."""

from pathlib import Path

from pylaunch.agent.evidence.rank_ends import existing_directory


def test_the_deepest_directory_that_is_there_is_looked_at(tmp_path: Path) -> None:
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path}/cache/plan/x.bin'"
    assert existing_directory(error) == [str(tmp_path)]
    assert existing_directory("ValueError: bad batch") == []
