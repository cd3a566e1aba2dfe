from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pylaunch.features.lab.cluster.nodes.cgroup import Cgroup, own_directory

HYBRID = """\
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw
"""
PURE = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("mountinfo", "own", "expected"),
    [
        (HYBRID, "4:memory:/elsewhere\n0::/\n", "/sys/fs/cgroup/unified"),
        (PURE, "0::/user.slice/session-1.scope\n", "/sys/fs/cgroup/user.slice/session-1.scope"),
        (PURE, "0::/../outside\n", "/sys/fs/cgroup"),
    ],
)
def test_our_cgroup_is_found_on_the_version_2_hierarchy(mountinfo: str, own: str, expected: str) -> None:
    assert own_directory(mountinfo, own) == Path(expected)


def test_a_machine_with_version_1_alone_has_none() -> None:
    assert own_directory("31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/\n") is None


def test_a_service_that_ends_while_its_node_is_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, pid in (("init.scope", "1"), ("system.slice", "7"), ("system.slice/ends.service", "8")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text(f"{pid}\n")
    listed = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("ends.service"):
            (tmp_path / "system.slice/ends.service/cgroup.procs").unlink()
            (tmp_path / "system.slice/ends.service").rmdir()
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert sorted(Cgroup(tmp_path).processes()) == [1, 7]
