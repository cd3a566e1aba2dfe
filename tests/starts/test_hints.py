"""Hints for typical mistakes name what has to change, and the inventory of the command line."""

import re
from collections.abc import Callable

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster

CORRECT = "correct pylaunch_agent_python or ansible_python_interpreter of n[1-2] in the inventory"


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster]) -> DirectoryCluster:
    """Two nodes whose interpreter for the agent is misspelt in the inventory."""
    nodes = directories("n1", "n2")
    lines = nodes.inventory.read_text().splitlines()
    wrong = [re.sub(r"pylaunch_agent_python=\S+", "pylaunch_agent_python=/opt/typo/python3", line) for line in lines]
    nodes.inventory.write_text("\n".join(wrong) + "\n")
    return nodes


@pytest.mark.parametrize(
    ("words", "reason", "hint"),
    [
        (("start", "--", "true"), "  n[1-2]: no Python at /opt/typo/python3", f"hint: {CORRECT}"),
        (("check", "--only", "reach"), "FAIL  n[1-2]: no Python at /opt/typo/python3  [reach.host]", f"fix: {CORRECT}"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_interpreter_of_the_agent_that_no_host_has(
    cluster: DirectoryCluster, words: tuple[str, ...], reason: str, hint: str
) -> None:
    verb, *others = words
    ended = cluster.run(verb, "-i", str(cluster.inventory), *others, code=ExitCode.CLUSTER_NOT_READY)
    assert reason in ended.stdout + ended.stderr
    assert hint in ended.stdout + ended.stderr


def test_bench_on_hosts_that_do_not_answer_names_check_with_the_inventory(cluster: DirectoryCluster) -> None:
    ended = cluster.run("bench", "-i", str(cluster.inventory), code=ExitCode.CLUSTER_NOT_READY)
    assert "broken   connect: 2 of 2 hosts cannot be asked from here (n[1-2])" in ended.stderr
    assert "  n[1-2]: no Python at /opt/typo/python3" in ended.stderr
    assert f"hint: pylaunch check -i {cluster.inventory}" in ended.stderr.splitlines()
    assert "incomplete: connect is broken; not measured: barrier, " in ended.stderr


def test_a_run_that_was_refused_has_no_logs_and_nothing_to_stop(directories: Callable[..., DirectoryCluster]) -> None:
    nodes = directories("n1", "n2")
    inventory = ("-i", str(nodes.inventory))
    assert nodes.run("start", *inventory, "--workdir", "/nowhere", "--", "true").returncode == 3
    (run,) = nodes.outcomes()
    logs = nodes.run("logs", run, code=ExitCode.CLUSTER_NOT_READY)
    assert logs.stderr.splitlines() == [
        f"error: run {run} has no logs: no rank of it was started",
        "",
        f"hint: pylaunch status {run}",
    ]
    stop = nodes.run("stop", *inventory, code=ExitCode.USAGE)
    every = f"all runs: pylaunch ps -i {nodes.inventory} --all"
    assert stop.stderr.splitlines()[-1] == f"hint: {every}"
    assert nodes.run("status", *inventory).stderr.splitlines()[-1] == (
        f"hint: pylaunch status -i {nodes.inventory} {run}; {every}"
    )
    assert nodes.run("stop", "zzzz").stderr.splitlines()[-1].endswith("what is known here: pylaunch ps --all")
