"""The type of a file system, from the table of mounts, and quotas."""

import errno
import os
from pathlib import Path

import pytest

from pylaunch.agent.evidence.rank_ends import disk_type, existing_directory, over_quota
from pylaunch.agent.shared import rank_files

MOUNTS = """\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 21 0:26 / /dev/shm rw,nosuid - tmpfs tmpfs rw
44 21 0:51 / /data rw,relatime shared:20 master:3 - nfs4 files:/data rw,vers=4.2
"""


def test_only_a_disk_of_the_node_has_a_type() -> None:
    assert disk_type(MOUNTS, os.makedev(254, 1)) == "ext4"
    assert disk_type(MOUNTS, os.makedev(0, 26)) == ""
    assert disk_type(MOUNTS, os.makedev(0, 51)) == ""
    assert disk_type(MOUNTS, os.makedev(8, 1)) == ""


def test_the_deepest_directory_that_is_there_is_looked_at(tmp_path: Path) -> None:
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path}/cache/plan/x.bin'"
    assert existing_directory(error) == [str(tmp_path)]
    assert existing_directory("ValueError: bad batch") == []


def test_a_quota_is_reported_where_free_space_is_and_the_probe_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert over_quota(str(tmp_path / "probe")) == []

    def refused(path: str, content: bytes) -> None:
        Path(f"{path}.new").write_bytes(content[:1])
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(rank_files, "replace", refused)
    assert over_quota(str(tmp_path / "probe")) == [f"{tmp_path}: Disk quota exceeded"]
    assert list(tmp_path.iterdir()) == []
