"""The last line names the rank that is the cause, not those that waited for it or lost their connection to it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended

CASES = Path(__file__).parents[1] / "cases" / "rank_ends"
# What torch's ranks do: wait for their peer, and fail when it is gone or silent for too long.
PID = "echo $$ > pid.$RANK.new; mv pid.$RANK.new pid.$RANK\n"
VICTIM = "[ $RANK = 1 ] || {{ {until}; cat {case} >&2; exit 1; }}\n"
ALL_UP = "until [ -e pid.0 ] && [ -e pid.2 ]; do sleep 0.1; done\n"
HAS_DEVIATED = "until [ -e pid.1 ] && {}; do sleep 0.1; done"
STOPS = HAS_DEVIATED.format("grep -q 'State:.T' /proc/$(cat pid.1)/status")
LEAVES = HAS_DEVIATED.format("[ ! -e /proc/$(cat pid.1) ]")
AT_ONCE = HAS_DEVIATED.format("true")
LATER = "while [ -e /proc/$(cat pid.0) ] || [ -e /proc/$(cat pid.2) ]; do sleep 0.02; done; sleep 0.4"
"""A process is gone once its agent has taken note of its end. Then later than in the same moment, and long before the
nodes of the victims stop the others."""


def explained(cluster: DirectoryCluster, until: str, case: str, deviation: str) -> tuple[str, dict[str, object]]:
    """Standard error and outcome of a start with three ranks, of which rank 1 deviates."""
    work = cluster.inventory.parent
    script = work / "job"
    script.write_text(PID + VICTIM.format(until=until, case=CASES / f"{case}.txt") + ALL_UP + deviation)
    words = ("--framework", "command", "--workdir", str(work), "--", "sh", str(script))
    start = ended(cluster.begin("start", "-i", str(cluster.inventory), *words), code=ExitCode.JOB_FAILED)
    (outcome,) = cluster.outcomes().values()
    return start.stderr, outcome


@pytest.mark.parametrize(
    ("until", "case", "deviation", "reported", "named", "cause"),
    [
        (STOPS, "gloo-recv-timeout", "kill -STOP $$", "rank 1 on n2 is stopped (state T: SIGSTOP", 1,
         "rank-stopped high"),
        (LEAVES, "gloo-peer-exited", "exit 0", "rank 1 on n2 exited with code 0, ", 1,
         "exited-early medium"),
        (AT_ONCE, "gloo-peer-killed", LATER, "no rank is named: rank ", None,
         ""),
    ],
    ids=["stopped", "exit 0", "ends well too late"],
)  # fmt: skip
def test_the_rank_that_deviates_is_named_and_its_victims_are_not(
    directories: Callable[..., DirectoryCluster],
    until: str,
    case: str,
    deviation: str,
    reported: str,
    named: int | None,
    cause: str,
) -> None:
    cluster = directories("n1", "n2", "n3")
    output, outcome = explained(cluster, until, case, deviation)
    (line,) = [line for line in output.splitlines() if line.startswith("error: run ")]
    assert f": {reported}" in line
    assert outcome["named"] == (None if named is None else {"host": "n2", "rank": named})
    shown = json.loads(cluster.run("status", *cluster.outcomes(), "--json").stdout)["outcome"]
    assert (shown["reason"], shown["named"]) == (outcome["reason"], outcome["named"])
    causes = [f"{each['kind']} {each['confidence']}" for each in shown["causes"]]
    if cause:
        assert causes[0] == cause
    else:  # A check may have warned about this machine.
        assert all(each.endswith(" low") for each in causes)
    victims = [each for each in shown["rejected"] if each["why"] == "the effect of another failure on this rank"]
    assert len(victims) == 2


SAME_MOMENT = "2 ranks failed at the same moment, within the uncertainty of the clocks: rank "
IN_ORDER = (
    "rank 0 on n1 exited with code 3; rank 2 on n3 failed on its own, too (exited with code 4); the other rank stopped"
)


FIRST = "until [ -e pid.2 ]; do sleep 0.1; done; exit 3"
SECOND = "until [ -e pid.0 ] && [ ! -e /proc/$(cat pid.0) ]; do sleep 0.1; done; exit 4"


def test_two_ranks_that_fail_on_their_own_are_both_named_and_none_is_called_stopped(
    directories: Callable[..., DirectoryCluster],
) -> None:
    """On a busy machine the clocks of the nodes are too uncertain for an order."""
    cluster = directories("n1", "n2", "n3")
    job = f"{PID}case $RANK in 0) {FIRST};; 2) {SECOND};; esac; exec sleep 60"
    words = ("--workdir", str(cluster.inventory.parent), "--", "sh", "-c", job)
    start = ended(cluster.start(*words), code=ExitCode.JOB_FAILED)
    stops = [line for line in start.stderr.splitlines() if line.startswith("stopping all nodes")]
    assert stops == ["stopping all nodes: a rank has failed; the cause follows"]
    assert IN_ORDER in start.stderr or SAME_MOMENT in start.stderr, start.stderr


def test_of_two_equal_failures_none_is_a_victim_and_none_is_named(
    directories: Callable[..., DirectoryCluster],
) -> None:
    both = "touch up.$RANK; while [ ! -e up.0 ] || [ ! -e up.1 ]; do sleep 0.02; done; exit 3"
    cluster = directories("n1", "n2", "n3")
    words = ("--workdir", str(cluster.inventory.parent), "--", "sh", "-c", f"[ $RANK = 2 ] && exec sleep 60; {both}")
    ended(cluster.start(*words), code=ExitCode.JOB_FAILED)
    shown = json.loads(cluster.run("status", *cluster.outcomes(), "--json").stdout)["outcome"]
    assert shown["named"] is None
    assert shown["reason"] == "2 of 3 ranks (0-1 on n[1-2]) failed alike: exited with code 3"
    assert shown["causes"][0]["kind"] == "rank-failed"
    assert not any("n3" in each["reason"] for each in shown["rejected"])


RAISES = """
import atexit, os, sys, time
def until(path, there):
    while os.path.exists(path) is not there:
        time.sleep(0.02)
"""


def test_an_exception_beside_code_0_is_the_cause_of_its_victims(
    directories: Callable[..., DirectoryCluster],
) -> None:
    """Rank 1 ends by os._exit(0) in a function of atexit."""
    cluster = directories("n1", "n2", "n3")
    work = cluster.inventory.parent
    script = work / "train.py"
    script.write_text(
        RAISES
        + f"""
case = open({str(CASES / "gloo-peer-exited.txt")!r}).read()
if os.environ["RANK"] == "1":
    open("pid", "w").write(str(os.getpid()))
    atexit.register(os._exit, 0)
    raise ValueError("loss is NaN")
until("pid", True)
until("/proc/" + open("pid").read(), False)
sys.stderr.write(case)
sys.exit(1)
"""
    )
    words = ("--framework", "direct", "--python", sys.executable, "--workdir", str(work), "--", "train.py")
    failed = ended(cluster.begin("start", "-i", str(cluster.inventory), *words), code=ExitCode.JOB_FAILED)
    assert "rank 1 on n2 exited with code 0 after ValueError: loss is NaN" in failed.stderr
    assert "as many batches" not in failed.stderr
