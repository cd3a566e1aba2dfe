"""A host that takes a connection and then never answers: what a person sees, and that Ctrl-C is Ctrl-C."""

import signal
from collections.abc import Callable

from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.runs.all_runs import discover
from tests.starts.cluster import Directory, DirectoryCluster, ended, gone, says
from tests.waiting import wait_until

BEFORE_PROBE_S = 50.0
"""Less than a probe is waited for (60 s)."""


def hangs_no_more(node: Directory) -> None:
    """Wait for the end of the probe that hangs there, which would not end on its own for ten minutes."""
    pid = node.hanging()
    if pid is not None:
        gone(pid)


def test_a_refusal_is_printed_at_once_though_a_check_still_hangs(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    cluster.nodes["n1"].probe_hangs()
    start = ended(cluster.start("--", "/no/such/program"), BEFORE_PROBE_S, code=ExitCode.CLUSTER_NOT_READY)
    assert "/no/such/program does not exist" in start.stderr
    hangs_no_more(cluster.nodes["n1"])


def test_ctrl_c_ends_a_start_that_waits_for_a_check(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    cluster.nodes["n2"].probe_hangs()
    start = cluster.start("--", "true")
    says(start, "preparing")
    wait_until(cluster.nodes["n2"].hanging, "a probe that hangs")
    start.send_signal(signal.SIGINT)
    done = ended(start, BEFORE_PROBE_S, code=ExitCode.INTERRUPTED)
    assert "interrupted before any rank was started" in done.stderr
    hangs_no_more(cluster.nodes["n2"])


def test_a_host_that_does_not_say_which_runs_it_knows_is_not_waited_for(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    cluster.nodes["n2"].agent_hangs()
    found = discover(load_cluster(cluster.inventory), timeout_s=4)
    assert found.silent["n2"] == "agent 127.0.0.1: no answer within 4 s"


def test_an_agent_that_cannot_say_which_runs_it_knows_is_no_trouble_of_ssh(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    (broken,) = (cluster.nodes["n1"].path / "root" / "agents").glob("*.pyz")
    broken.write_text("no archive")
    (reason,) = discover(load_cluster(cluster.inventory)).silent.values()
    assert "has the content that its name says" in reason
