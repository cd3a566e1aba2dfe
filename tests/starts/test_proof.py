"""A run whose agent was killed or stopped, or whose node was restarted, is proven stopped, and seen until then."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, appears, ended, gone, killed_agent, killed_controller
from tests.waiting import wait_until

RANK = "echo up; echo $$ > {here}/rank.new; mv {here}/rank.new {here}/rank; exec sleep 600"
DAEMON = "setsid sh -c '" + RANK + "' & sleep 600"


@pytest.fixture
def detached(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> Callable[[str], DirectoryCluster]:
    """Start a rank on n1 that survives its agent and writes its process id; without a controller."""

    def start(script: str) -> DirectoryCluster:
        cluster = directories("n1")
        words = ("--detach", "--skip", "all", "--grace", "1", "--", "sh", "-c", script.format(here=tmp_path))
        ended(cluster.start(*words), code=ExitCode.DONE)
        appears(tmp_path / "rank")
        wait_until(lambda: processes.read(rank_of(cluster)).command == "sleep 600", "what the rank becomes")
        killed_controller(cluster)
        return cluster

    return start


def rank_of(cluster: DirectoryCluster) -> int:
    return int(cluster.inventory.with_name("rank").read_text())


def test_a_stopped_agent_is_seen_by_every_verb_and_its_run_is_stopped(
    detached: Callable[[str], DirectoryCluster],
) -> None:
    cluster = detached(RANK)
    (run,), (agent,) = cluster.outcomes(), cluster.nodes["n1"].agents()
    os.kill(agent, signal.SIGSTOP)
    wait_until(lambda: processes.read(agent).state == "T", "the agent is stopped")
    words = f"the agent of run {run} (pid {agent}) is stopped (SIGSTOP)"
    assert "not answering" in cluster.run("ps").stdout
    assert words in cluster.run("status", run).stdout
    stop = cluster.run("stop", run, code=ExitCode.DONE)
    assert f"n1: ended: {words}" in stop.stderr
    assert "ending what the run left on n1, for 61 s at most\n" in stop.stderr
    gone(rank_of(cluster))
    gone(agent)
    assert (cluster.outcomes()[run]["status"], cluster.outcomes()[run]["unproven"]) == ("stopped", [])


def test_what_a_killed_agent_left_is_found_by_status_and_ended_by_stop(
    detached: Callable[[str], DirectoryCluster],
) -> None:
    cluster = detached(DAEMON)
    (run,) = cluster.outcomes()
    rank = rank_of(cluster)
    killed_agent(cluster.nodes["n1"], left=rank)
    status = cluster.run("status", run)
    assert f"n1: left: pid {rank} (sleep 600)" in status.stderr
    assert f"n1: left behind: pid {rank} (sleep 600)" in status.stderr
    stop = cluster.run("stop", run, code=ExitCode.DONE)
    assert f"n1: ended: pid {rank} (sleep 600)" in stop.stderr
    gone(rank)
    outcome = cluster.outcomes()[run]
    assert (outcome["status"], outcome["unproven"], outcome["leftovers"]) == ("failed", [], {})


def test_a_run_that_continues_elsewhere_is_not_finished_where_its_agent_was_killed(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    ended(cluster.start("--detach", "--skip", "all", "--grace", "1", "--", "sleep", "600"), code=ExitCode.DONE)
    killed_controller(cluster)
    killed_agent(cluster.nodes["n2"])
    assert "n1: running, rank 0\n  n2: agent lost\n" in cluster.run("status", *cluster.outcomes()).stdout
    cluster.run("stop", *cluster.outcomes())


def test_a_node_that_lost_the_files_of_a_run_is_not_called_clean_while_its_ranks_live(
    detached: Callable[[str], DirectoryCluster],
) -> None:
    """A cleaner of /tmp, or a person, removes them under a live agent."""
    cluster = detached(RANK)
    (run,), rank = cluster.outcomes(), rank_of(cluster)
    (agent,) = cluster.nodes["n1"].agents()
    shutil.rmtree(cluster.nodes["n1"].path / "root" / "runs" / run)
    status = cluster.run("status", run)
    directory = cluster.nodes["n1"].path / "root" / "runs" / run
    words = (
        f"the files of run {run} cannot be read: {directory}: No such file or directory; 1 of its processes is alive"
    )
    assert f"n1: not answering ({words})" in status.stdout
    assert "clean (" not in status.stderr
    stop = cluster.run("stop", run, code=ExitCode.DONE)
    assert f"n1: ended: pid {rank} (sleep 600)" in stop.stderr
    gone(rank)
    gone(agent)


def test_a_node_that_was_restarted_and_lost_the_agents_archive_proves_itself_clean(
    detached: Callable[[str], DirectoryCluster],
) -> None:
    cluster = detached(RANK)
    (run,), root = cluster.outcomes(), cluster.nodes["n1"].path / "root"
    killed_agent(cluster.nodes["n1"])
    gone(rank_of(cluster))
    (root / "runs" / run / "boot").write_text("another boot\n")
    shutil.rmtree(root / "agents")
    stop = cluster.run("stop", run, code=ExitCode.DONE)
    assert "n1: the node was restarted since the run began, and no process of it is left" in stop.stderr
    outcome = cluster.outcomes()[run]
    assert (outcome["status"], outcome["unproven"]) == ("failed", [])
    assert "restarted" in outcome["reason"]


@pytest.mark.parametrize("verb", ["status", "clean"])
def test_other_verbs_prove_it_too_and_until_then_ps_lists_the_run(
    detached: Callable[[str], DirectoryCluster], verb: str
) -> None:
    cluster = detached(RANK)
    (run,) = cluster.outcomes()
    killed_agent(cluster.nodes["n1"])
    gone(rank_of(cluster))
    listed = cluster.run("ps")
    assert "failed, not proven clean" in listed.stdout
    assert cluster.outcomes()[run]["unproven"] == ["n1"]
    assert cluster.run(verb, *([run] if verb == "status" else ["-i", str(cluster.inventory)])).returncode == 0
    assert cluster.outcomes()[run]["unproven"] == []
    assert "no run is live among those recorded here; started elsewhere: " in cluster.run("ps").stderr
    asked = cluster.run("ps", "-i", str(cluster.inventory)).stderr
    assert "no run is live of the user that logs in to n1; past ones: pylaunch ps --all" in asked
