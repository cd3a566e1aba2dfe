"""`pylaunch top` on a terminal, beside real runs of directories: what it shows, a stop, and its end."""

import os
import signal
from collections.abc import Callable

import pytest

from pylaunch.errors import ExitCode
from pylaunch.features import FEATURES
from tests.starts.cluster import DirectoryCluster
from tests.starts.test_terminal import on_terminal, started

pytestmark = pytest.mark.skipif("top" not in FEATURES, reason="the feature was removed")

STEPS = "for step in 1 2 3 4 5; do echo step $step/100 [red]loss; done; exec sleep 300"
SCREEN_OF_THE_SHELL = "\x1b[?1049l"


def test_a_run_is_shown_with_its_ranks_and_stopped(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    assert cluster.run(*started(cluster, "--detach", "--", "sh", "-c", STEPS)).returncode == ExitCode.DONE
    (run,) = cluster.outcomes()
    top = on_terminal(cluster, "top", "-i", str(cluster.inventory))
    top.shows(rf"{run}.*running.*n\[1-2\].*5/100")
    top.shows(r"n1.*cpu.*rank 0.*step 5/100 \[red\]loss")
    seen = len(top.written())
    top.press(b"s")
    seen = top.shows(rf"pylaunch stacks {run} \(ended\)", seen)
    top.press(b"\x1b")
    seen = top.shows(r"rank 0", seen)
    top.press(b"x")
    seen = top.shows(rf"Stop run {run} \(2 ranks on n\[1-2\]\)\?", seen)
    assert cluster.outcomes() == {run: {}}
    top.press(b"y")
    seen = top.shows(rf"pylaunch stop {run} \(.*ended\)", seen)
    assert cluster.outcomes()[run]["status"] == "stopped"
    top.press(b"q")
    top.shows("0 live", seen)
    top.press(b"q")
    assert SCREEN_OF_THE_SHELL in top.ends()[-200:]


def test_a_node_whose_agent_stops_answering_and_sigterm(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    words = started(cluster, "--node-timeout", "600", "--detach", "--", "sh", "-c", STEPS)
    assert cluster.run(*words).returncode == ExitCode.DONE
    (run,) = cluster.outcomes()
    (agent,) = cluster.nodes["n2"].agents()
    top = on_terminal(cluster, "top")
    try:
        seen = top.shows(r"n2.*cpu")
        os.kill(agent, signal.SIGSTOP)
        seen = top.shows(r"running, 1 silent.*no contact with n2: no heartbeat for 8 s", seen)
        os.kill(agent, signal.SIGCONT)
        top.shows(r"running .*n2.*cpu", seen)
        os.kill(top.pid, signal.SIGTERM)
        assert SCREEN_OF_THE_SHELL in top.ends()[-200:]
        assert cluster.outcomes() == {run: {}}, "the run is left alone"
    finally:
        os.kill(agent, signal.SIGCONT)
        assert cluster.run("stop", run).returncode == ExitCode.DONE


def test_it_needs_a_terminal(directories: Callable[..., DirectoryCluster]) -> None:
    ended = directories("n1").run("top")
    assert ended.returncode == ExitCode.USAGE
    assert "error: top needs a terminal" in ended.stderr
