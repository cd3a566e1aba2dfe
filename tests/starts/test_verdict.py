"""The last line names the rank that is the cause, not those that waited for it or lost their connection to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended

CASES = Path(__file__).parents[1] / "cases" / "rank_ends"
# What torch's ranks do: wait for their peer, and fail when it is gone or silent for too long.
VICTIM = "[ $RANK = 1 ] || {{ touch up.$RANK; {until}; cat {case} >&2; exit 1; }}\n"
ALL_UP = "while [ ! -e up.0 ] || [ ! -e up.2 ]; do sleep 0.02; done\n"
STOPS = "until grep -q 'State:.T' /proc/$(cat pid 2>/dev/null || echo 1)/status; do sleep 0.02; done"
LEAVES = "until [ -e gone ]; do sleep 0.02; done; sleep 0.3"


def explained(cluster: DirectoryCluster, until: str, case: str, deviation: str) -> tuple[str, dict[str, object]]:
    """Standard error and outcome of a start with three ranks, of which rank 1 deviates."""
    work = cluster.inventory.parent
    script = work / "job"
    script.write_text(VICTIM.format(until=until, case=CASES / f"{case}.txt") + ALL_UP + deviation)
    words = ("--framework", "command", "--workdir", str(work), "--", "sh", str(script))
    start = ended(cluster.begin("start", "-i", str(cluster.inventory), *words))
    assert start.returncode == ExitCode.JOB_FAILED, start.stderr
    (outcome,) = cluster.outcomes().values()
    return start.stderr, outcome


@pytest.mark.parametrize(
    ("until", "case", "deviation", "reported", "named"),
    [
        (STOPS, "gloo-recv-timeout", "echo $$ > pid; kill -STOP $$", "rank 1 on n2 is stopped (state T: SIGSTOP", 1),
        (LEAVES, "gloo-peer-exited", "touch gone; exit 0", "rank 1 on n2 exited with code 0, ", 1),
        (LEAVES, "gloo-recv-timeout", "touch gone; exec sleep 60", "rank 1 on n2 alone had not ended (sleeping", 1),
        (LEAVES, "gloo-peer-killed", "touch gone; exec sleep 0.8", "no rank is named: rank ", None),
        (LEAVES, "gloo-peer-exited", "touch gone; sleep 0.8; exit 3", "rank 1 on n2 exited with code 3", 1),
    ],
    ids=["stopped", "exit 0", "does not come", "ends well too late", "fails after its victims"],
)
def test_the_rank_that_deviates_is_named_and_its_victims_are_not(
    directories: Callable[..., DirectoryCluster],
    until: str,
    case: str,
    deviation: str,
    reported: str,
    named: int | None,
) -> None:
    cluster = directories("n1", "n2", "n3")
    output, outcome = explained(cluster, until, case, deviation)
    (line,) = [line for line in output.splitlines() if line.startswith("error: run ")]
    assert f": {reported}" in line
    assert outcome["named"] == (None if named is None else {"host": "n2", "rank": named})
    shown = json.loads(cluster.run("status", *cluster.outcomes(), "--json").stdout)["outcome"]
    assert (shown["reason"], shown["named"]) == (outcome["reason"], outcome["named"])
