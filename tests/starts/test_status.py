"""`pylaunch status` of a live run: why it was restarted, its spare, its progress and the last line of every rank."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended
from tests.waiting import wait_until

JOB = """
[ $TORCHELASTIC_RESTART_COUNT != 0 ] || exec sh -c '[ $RANK = 0 ] && exit 3; exec sleep 300'
if [ $RANK = 0 ]; then
    {python} -c 'from pylaunch.runtime import step; step(42, total=100)'
    printf 'loss=2.5\\nsaved\\n'
else
    echo waits
fi
touch {written}.$RANK
exec sleep 300
"""


def test_a_live_run_shows_spare_restart_progress_and_last_lines(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster, written = directories("n1", "n2", "n3"), tmp_path / "written"
    job = JOB.format(written=written, python=sys.executable)
    start = cluster.start("--spares", "1", "--max-restarts", "2", "--", "sh", "-c", job)
    try:
        both = [written.with_name(f"written.{rank}") for rank in (0, 1)]
        wait_until(lambda: all(each.exists() for each in both), "both ranks of the second attempt have written")
        run = min(cluster.outcomes())
        shown = cluster.run("status", run)
        lines = [line.strip() for line in shown.stdout.splitlines()]
        assert "spare: n3" in lines
        assert f"restart 1 of 2, because {run}.0 ended: rank 0 on n1 exited with code 3" in lines
        (progress,) = [line for line in lines if line.startswith("step 42 of 100: rank 0 on n1, ")]
        assert progress.endswith("; 1 mark no steps")
        assert lines[-2:] == ["rank 0 | saved", "rank 1 | waits"]
        document = documented(cluster.run("status", run, "--json").stdout, "pylaunch status")
        assert (document["spares"], document["previous"]["run"]) == (["n3"], f"{run}.0")
        assert document["furthest"]["step"] == 42
        assert document["last_lines"] == {"0": "saved", "1": "waits"}
    finally:
        start.send_signal(signal.SIGINT)
    assert ended(start).returncode == ExitCode.INTERRUPTED
    assert "rank 0 | saved" not in cluster.run("status", run).stdout, "a run that is over has no last lines"
