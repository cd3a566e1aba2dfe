"""An agent dies or stops, and its host answers: the host is not called lost, and nothing of the run stays there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, appears, ended, gone, killed_agent, says
from tests.waiting import wait_until

WRITES_ITS_PID = "echo $$ > {here}/worker.new; mv {here}/worker.new {here}/worker"
WORKER = f"(setsid sh -c '{WRITES_ITS_PID}; exec sleep 600' &)"
"""A child that outlives its rank, as a worker of a data loader does."""

KILLS_ITS_AGENT = (
    f"AGENT=$PPID sh -c 'trap \"kill -KILL $AGENT\" TERM; {WRITES_ITS_PID}; while :; do sleep 600 & wait; done' &"
)
"""On SIGTERM, which the agent sends once its ranks have ended."""


def asleep(file: Path) -> int:
    """Wait until the worker that writes its process id to `file` sleeps, and return the id."""
    appears(file)
    worker = int(file.read_text())
    wait_until(lambda: processes.read(worker).command == "sleep 600", "what the worker becomes")
    return worker


def test_a_killed_agent_is_named_and_its_host_proven_clean(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    script = f"[ $RANK = 0 ] || {WORKER}; sleep 600"
    starting = cluster.start("--skip", "all", "--grace", "1", "--", "sh", "-c", script.format(here=tmp_path))
    says(starting, "started in")
    worker = asleep(tmp_path / "worker")
    killed_agent(cluster.nodes["n2"], left=worker)
    start = ended(starting)
    (run,) = cluster.outcomes()
    assert start.returncode == ExitCode.JOB_FAILED
    assert "n2: the agent closed the connection; trying to reach it again\n" in start.stderr
    assert f"error: run {run}: n2 answers, but the agent of run {run} ended without a report\n" in start.stderr
    assert f"ending what the run left on n2\nn2: ended: pid {worker} (sleep 600)" in start.stderr
    assert "n[1-2]: clean" in start.stderr
    assert "lost: " not in start.stderr
    assert start.stderr.endswith("hint: on n2: journalctl --since -1h -g 'oom|killed'\n")
    gone(worker)
    shown = json.loads(cluster.run("status", run, "--json").stdout)["outcome"]
    assert [(each["kind"], each["host"], each["rank"]) for each in shown["causes"]] == [("agent-lost", "n2", None)]
    assert [host["clean"] for host in shown["hosts"]] == [True, True]
    assert "by the record of all nodes, medium confidence: agent-lost" in cluster.run("explain", run).stdout


def test_an_agent_that_dies_after_its_ranks_have_ended_fails_no_run(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    script = f"[ $RANK = 0 ] || {KILLS_ITS_AGENT} until [ -e {{here}}/go ]; do sleep 0.05; done".format(here=tmp_path)
    starting = cluster.start("--skip", "all", "--", "sh", "-c", script)
    says(starting, "started in")
    appears(tmp_path / "worker")
    worker = int((tmp_path / "worker").read_text())
    (run,), (agent,) = cluster.outcomes(), cluster.nodes["n2"].agents()
    events = cluster.nodes["n2"].path / "root" / "runs" / run / "events.jsonl"
    (tmp_path / "go").touch()
    gone(agent)
    assert '"RankEnd"' in events.read_text()
    start = ended(starting, code=ExitCode.DONE)
    assert "2 ranks on n[1-2] exited with code 0" in start.stderr
    assert "stopping all nodes" not in start.stderr
    assert f"n2: ended: pid {worker} " in start.stderr
    gone(worker)
    outcome = cluster.outcomes()[run]
    why = f"n2 answers, but the agent of run {run} ended without a report"
    assert (outcome["status"], outcome["reason"], outcome["unproven"]) == (
        "done", f"every rank exited with code 0; {why}", [],
    )  # fmt: skip


@pytest.mark.parametrize("spares", ["0", "1"])
def test_a_host_whose_agent_was_killed_is_used_again(directories: Callable[..., DirectoryCluster], spares: str) -> None:
    cluster = directories("n1", "n2", *(["n3"] if spares == "1" else []))
    job = "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 600; exit 0"
    words = ("--skip", "all", "--grace", "1", "--max-restarts", "1", "--spares", spares, "--", "sh", "-c", job)
    starting = cluster.start(*words)
    says(starting, "started in")
    killed_agent(cluster.nodes["n2"])
    start = ended(starting, code=ExitCode.DONE)
    assert "restart 1 of 1" in start.stderr
    assert "in place of" not in start.stderr
    assert "2 ranks on n[1-2] exited with code 0" in start.stderr
