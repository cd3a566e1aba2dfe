"""Functions for runs that exist, without a command line: from any thread, printing nothing."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from pylaunch.errors import ClusterNotReadyError
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster, Host, SshOptions
from pylaunch.model.outcome import Outcome, Status
from pylaunch.runs import stop
from pylaunch.runs.all_runs import RunNotNamedError, discover_runs, find_live_run, find_run
from pylaunch.runs.attach import Attached, AttachEvent, RunOver, attach
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.existing.logs import LogQuery
from pylaunch.runs.follow.run_events import LinesWritten, RunEvent
from pylaunch.runs.follow.run_follower import rank_streams
from pylaunch.runs.logs import collect_logs, follow_logs
from pylaunch.runs.status import list_runs, report
from pylaunch.runs.stop import StopEvent, stop_run
from pylaunch.store import runs
from pylaunch.store.account import user_and_host
from tests.starts.cluster import DirectoryCluster, appears
from tests.waiting import wait_until

WITHIN_S = 60.0
JOB = "echo loss=1; echo nothing; touch up.$RANK; while :; do sleep 0.1; done"


@pytest.fixture
def live(directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch) -> DirectoryCluster:
    """Two nodes on which a detached run writes two lines and waits."""
    cluster = directories("n1", "n2")
    words = ("--workdir", str(cluster.inventory.parent), "--framework", "command", "--detach", "--no-check")
    cluster.run("start", "-i", str(cluster.inventory), *words, "--", "sh", "-c", JOB, code=0)
    for rank in range(2):
        appears(cluster.inventory.parent / f"up.{rank}")
    return cluster


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_hosts_that_all_are_silent_get_the_next_step_of_each() -> None:
    hosts = [Host(name, "127.0.0.1", ssh=SshOptions(port=1)) for name in ("n1", "n2")]
    with pytest.raises(ClusterNotReadyError, match="no host answered") as silent:
        discover_runs(Cluster(tuple(hosts)))
    assert silent.value.hint == "start sshd on n[1-2], or correct ansible_port"


def test_a_run_is_found_read_and_stopped_from_a_program(
    live: DirectoryCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster, handler = load_cluster(live.inventory), signal.getsignal(signal.SIGINT)
    capfd.readouterr()
    record = find_live_run(cluster.sources)
    run = record.plan.run
    assert find_run(run[:6]).plan.run == run
    assert discover_runs(cluster).live == {run}
    state = report(record).status
    assert (state.state, [node.running for node in state.nodes]) == ("running", [(0,), (1,)])

    lines: list[RunEvent] = []
    query = LogQuery(record.plan.nodes, rank_streams(record.plan))
    follow_logs(record, query, lines.append, only_with="loss")
    assert sorted((each.host, each.text) for each in lines if isinstance(each, LinesWritten)) == [
        ("n1", "loss=1\n"), ("n2", "loss=1\n"),
    ]  # fmt: skip
    collected = collect_logs(record, tmp_path / "logs", lambda _: None)
    assert (tmp_path / "logs" / "n2" / "1.out").read_text() == "loss=1\nnothing\n"
    assert tmp_path / "logs" / "n2" / "1.out" in collected.files

    events: list[StopEvent] = []
    stopped = stop_run(record, events.append, now=True)
    stopped.raise_if_unclean()
    assert (stopped.outcome.status, stopped.clean) == (Status.STOPPED, ("n1", "n2"))
    wait_until(lambda: find_run(run).outcome, "the detached controller has recorded the end")
    assert stop_run(find_run(run), events.append, now=True).was_over
    assert [each.status.state for each in list_runs(past=True)] == ["stopped"]
    assert list_runs(past=False) == []
    with pytest.raises(RunNotNamedError, match="no run started without an inventory is live: name one") as refused:
        find_live_run(())
    assert [each.plan.run for each in refused.value.candidates] == [run]
    assert capfd.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_stop_that_fails_leaves_the_run_to_the_next_one(
    live: DirectoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = find_live_run(load_cluster(live.inventory).sources)
    controller = runs.controller(record.plan.run)
    assert controller is not None
    os.kill(controller, signal.SIGKILL)
    wait_until(lambda: runs.controller(record.plan.run) is None, "the controller is gone")

    def fail(*_: object) -> NoReturn:
        raise ClusterNotReadyError("no host can be reached")

    with monkeypatch.context() as patched:
        patched.setattr(stop, "_stopped", fail)
        with pytest.raises(ClusterNotReadyError):
            stop_run(record, ignore_event, now=True)
    assert runs.controller(record.plan.run) is None
    stop_run(record, ignore_event, now=True).raise_if_unclean()
    assert find_run(record.plan.run).outcome is not None


def ignore_event(_: StopEvent) -> None:
    """Events of the stop are of no interest."""


def test_an_interrupter_stops_the_run_that_a_thread_is_attached_to(live: DirectoryCluster) -> None:
    record = find_live_run(load_cluster(live.inventory).sources)
    interrupter, read, outcomes = Interrupter(), threading.Event(), list[Outcome]()
    events: list[AttachEvent] = []

    def take(event: AttachEvent) -> None:
        events.append(event)
        if isinstance(event, LinesWritten):
            read.set()

    thread = in_thread(lambda: outcomes.append(attach(record, take, interrupter)))
    assert read.wait(WITHIN_S), events
    interrupter.interrupt("stopped by a notebook")
    thread.join(WITHIN_S)
    assert [each.status for each in outcomes] == [Status.STOPPED]
    assert outcomes[0].reason == f"stopped by a notebook ({user_and_host()})"
    assert isinstance(events[0], Attached)
    assert isinstance(events[-1], RunOver)
    assert report(find_run(record.plan.run)).status.state == "stopped"
