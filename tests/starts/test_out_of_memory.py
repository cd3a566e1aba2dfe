"""A rank that the kernel ends for lack of memory, in a small cgroup made for the purpose."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended
from tests.waiting import wait_until

LIMIT = 256 << 20
GREEDY = "x = [b'x' * (8 << 20) for _ in range(128)]"


def memory_of_ours() -> tuple[Path, str, str] | None:
    """The directory of the cgroup that accounts for our memory, and the files of its limits; None where we may not."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return (
                Path("/sys/fs/cgroup/memory", path.lstrip("/")),
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
            )
    for mounted in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (mounted / "cgroup.subtree_control").exists() and "memory" in (
            mounted / "cgroup.subtree_control"
        ).read_text():
            return mounted, "memory.max", "memory.swap.max"
    return None


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A cgroup with 256 MiB; skipped where none can be made."""
    found = memory_of_ours()
    if found is None or os.getuid() != 0:
        pytest.skip("no cgroup with a limit of memory can be made here")
    above, limit, swap = found
    made = above / f"pylaunch-test-{secrets.token_hex(4)}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    try:
        (made / limit).write_text(str(LIMIT))
        with contextlib.suppress(OSError):
            (made / swap).write_text("0" if swap.endswith("max") else str(LIMIT))
        yield made
    finally:
        wait_until(lambda: not (made / "cgroup.procs").read_text(), "the end of the agents in it")
        made.rmdir()


def test_a_rank_that_takes_more_than_there_is_ended_out_of_memory_with_the_limit(
    directories: Callable[..., DirectoryCluster], small_cgroup: Path, tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    script = tmp_path / "job"
    script.write_text(f'[ $RANK = 1 ] && exec /usr/bin/python3 -c "{GREEDY}"; exec sleep 60')
    job = ("--framework", "command", "--workdir", str(tmp_path), "--", "sh", str(script))
    words = ("start", "-i", str(cluster.inventory), *job)
    enter = f'echo $$ > "{small_cgroup}/cgroup.procs"; exec "$@"'
    start = ended(
        subprocess.Popen(
            ["sh", "-c", enter, "sh", sys.executable, "-m", "pylaunch", *words],
            env={**os.environ, "XDG_STATE_HOME": str(cluster.state)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
    )  # fmt: skip
    assert start.returncode == ExitCode.JOB_FAILED, start.stderr
    assert "rank 1 on n2 was killed by SIGKILL: out of memory (limit of the cgroup: 256 MiB)" in start.stderr
    shown = json.loads(cluster.run("status", *cluster.outcomes(), "--json").stdout)["outcome"]
    (first, *_) = shown["causes"]
    assert (first["kind"], first["confidence"], first["host"], first["rank"]) == ("out-of-memory", "high", "n2", 1)
