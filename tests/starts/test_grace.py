"""The time that ranks have after SIGTERM."""

import os
from collections.abc import Callable

import pytest

from tests.starts.cluster import DirectoryCluster, ended, gone

BECOMES_NOBODY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("{up}", "w").write(str(os.getpid()))
os.setuid(65534)
time.sleep(600)
"""
SLOW_TO_SAVE = "trap 'sleep $1; echo saved; exit 0' TERM; touch $0.up; while :; do sleep 0.1; done"


@pytest.mark.parametrize(
    ("options", "needs_s", "saved"), [((), 60, 0), (("--grace", "60"), 3, 1)], ids=["short", "as asked"]
)
def test_ranks_have_a_grace_after_a_failure(
    directories: Callable[..., DirectoryCluster], options: tuple[str, ...], needs_s: int, saved: int
) -> None:
    cluster = directories("n1", "n2")
    script = cluster.inventory.with_name("job")
    fails = f"while [ ! -e {script}.up ]; do sleep 0.05; done; exit 7"
    script.write_text(f'if [ "$RANK" = 0 ]; then {fails}; fi\n{SLOW_TO_SAVE}\n')
    start = ended(cluster.start(*options, "--", "sh", str(script), str(needs_s)))
    assert "rank 0 on n1 exited with code 7" in start.stderr
    assert start.stdout.count("saved") == saved


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_a_rank_that_became_another_user_and_ignores_sigterm_does_not_outlive_its_run(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    up = cluster.inventory.with_name("up")
    other = cluster.inventory.with_name("other.py")
    other.write_text(BECOMES_NOBODY.format(up=up))
    fails = f"while [ ! -s {up} ]; do sleep 0.05; done; exit 7"
    script = f"if [ $RANK = 1 ]; then exec /usr/bin/python3 {other}; fi; {fails}"
    start = ended(cluster.start("--grace", "1", "--skip", "all", "--", "sh", "-c", script))
    assert "n[1-2]: clean" in start.stderr
    gone(int(up.read_text()))
