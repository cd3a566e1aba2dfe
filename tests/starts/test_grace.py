"""The time that ranks have after SIGTERM."""

from collections.abc import Callable

import pytest

from tests.starts.cluster import DirectoryCluster, ended

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
