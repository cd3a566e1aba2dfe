"""What the node of a failed rank no longer has, and the limits that ended a rank."""

import os
import resource
import signal
import time
from pathlib import Path

import pytest

from pylaunch.agent.evidence import node_changes
from pylaunch.agent.evidence.node_changes import NodeAtStart, existing_directory, limits_reached, mount_points

MOUNTS = """\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
44 21 0:51 / /data rw,relatime shared:20 master:3 - nfs4 files:/data rw,vers=4.2
45 21 0:52 / /data\\040two rw - nfs4 files:/two rw
"""


def missing(path: Path | str) -> str:
    return f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"


def test_a_mount_that_is_gone_is_named_for_a_path_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mount_points(MOUNTS) == {"/data", "/data two"}
    tables = iter([MOUNTS, MOUNTS.splitlines()[0], MOUNTS.splitlines()[0]])
    monkeypatch.setattr(node_changes, "text_or_none", lambda path: next(tables))
    start = NodeAtStart("")
    assert start.changes(missing("/data/shard-7")) == ["/data was mounted at the start and is not mounted now"]
    assert start.changes(missing("/database/x")) == []


def test_an_environment_that_was_moved_away_or_replaced_is_named(tmp_path: Path) -> None:
    (tmp_path / "v1" / "bin").mkdir(parents=True)
    (tmp_path / "v2" / "bin").mkdir(parents=True)
    (tmp_path / "current").symlink_to("v1")
    for version in ("v1", "v2"):
        (tmp_path / version / "bin" / "python").touch()
    python = tmp_path / "current" / "bin" / "python"
    start, error = NodeAtStart(str(python)), "ModuleNotFoundError: No module named 'plan'"
    assert start.changes(error) == []
    (tmp_path / "current").unlink()
    assert start.changes(error) == [f"the Python of the ranks was there at the start and is gone: {python}"]
    (tmp_path / "current").symlink_to("v2")
    assert start.changes(error) == [f"{python} was in {tmp_path}/v1/bin at the start and is in {tmp_path}/v2/bin now"]
    assert start.changes("ValueError: bad batch") == []


def test_a_directory_that_is_missing_is_named_if_the_one_above_changed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    start = NodeAtStart("")
    error = missing(tmp_path / "cache" / "plan" / "x.bin")
    (tmp_path / "cache" / "plan").mkdir()
    assert start.changes(error) == [], "the directory is there, so the file alone is missing"
    (tmp_path / "cache" / "plan").rmdir()
    os.utime(tmp_path / "cache", times=(time.time() + 1, time.time() + 1))
    assert start.changes(error) == [
        f"the directory {tmp_path}/cache/plan is missing, and {tmp_path}/cache has changed since the start"
    ]
    os.utime(tmp_path / "cache", times=(1, 1))
    assert start.changes(error) == [], "it was so before the start"
    assert existing_directory(error) == [str(tmp_path / "cache")]
    assert existing_directory("ValueError: bad batch") == []


def test_signals_of_limits_show_the_limit_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda number: (3600, 3600))
    assert limits_reached(signal.SIGXCPU, "") == ["it used up its processor time (ulimit -t: 3600 s)"]
    assert limits_reached(None, "OSError: [Errno 27] File too large") == [
        "a file reached the limit of its size (ulimit -f: 3 KiB)"
    ]
    monkeypatch.setattr(resource, "getrlimit", lambda number: (resource.RLIM_INFINITY,) * 2)
    assert limits_reached(signal.SIGXFSZ, "") == [
        "a file reached the limit of its size (ulimit -f: unlimited for the agent: the program set it)"
    ]
    [text] = limits_reached(signal.SIGSYS, "")
    assert text.startswith("a filter of system calls (seccomp) forbade one: ")
    assert limits_reached(signal.SIGKILL, "ValueError: bad batch") == []
