"""A directory of a run that a rank takes away: each sentence names it, and the end of ranks is noticed without it."""

import re
from collections.abc import Callable

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended, says

JOB = (
    "echo up; d=$PYLAUNCH_ROOT/runs/$PYLAUNCH_RUN; "
    "if [ $RANK = 1 ]; then sleep 0.5; mv $d $d.gone; : > $d; echo unseen; fi; "
    "until [ -e {go} ]; do sleep 0.05; done; [ $RANK = 0 ] || exit 3"
)


def test_the_directory_is_named_where_output_is_missing_and_where_a_node_is_clean(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    go = cluster.inventory.with_name("go")
    start = cluster.start("--", "sh", "-c", JOB.format(go=go))
    says(start, "warning: n2: output cannot be read from here on: ")
    (run,) = cluster.outcomes()
    reason = f"{cluster.nodes['n2'].path}/root/runs/{run}: Not a directory"
    status = cluster.run("status", run)
    assert f"n2: not answering (the files of run {run} cannot be read: {reason}; " in status.stdout
    assert re.search(r"; \d+ of its processes (is|are) alive\)", status.stdout), status.stdout
    assert f"n2: the files of run {run} cannot be read: {reason}" in cluster.run("logs", run).stderr
    go.touch()
    done = ended(start, code=ExitCode.JOB_FAILED)
    assert "rank 1 on n2 exited with code 3" in done.stderr
    assert done.stderr.count("cannot be read from here on") == 0, done.stderr
    assert "n[1-2]: clean (" in done.stderr
    assert f"n2: the files of the run cannot be read, output and record are incomplete: {reason}" in done.stderr
    assert f"output and record are incomplete: {reason}" in cluster.run("status", run).stderr
