"""The public Python API, on nodes that are directories of this machine."""

import inspect
import itertools
import os
import runpy
import signal
import subprocess
import sys
import threading
import typing
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch import api
from pylaunch.agent.shared import processes
from tests.documents import ROOT
from tests.starts.cluster import DirectoryCluster, appears, gone

EXAMPLE = ROOT / "examples" / "from_python.py"
QUICK = api.StartOptions()
"""Without checks, which judge this busy machine, too."""


def shell(script: str) -> api.Job:
    return api.Job(("sh", "-c", script), api.Framework.COMMAND, "/", ranks_per_node=1)


@pytest.fixture
def nodes(directories: Callable[..., DirectoryCluster]) -> DirectoryCluster:
    return directories("n1", "n2")


@pytest.fixture
def cluster(nodes: DirectoryCluster) -> api.Cluster:
    return api.load_cluster(nodes.inventory)


def test_a_run_is_started_waited_for_and_read_and_nothing_is_printed(
    cluster: api.Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    run = api.start(cluster, shell("echo rank $RANK; echo oops >&2"), QUICK)
    outcome = run.wait(timeout_s=60)
    assert outcome.status is api.Status.DONE
    outcome.raise_for_failure()
    lines = {(line.host, line.rank, line.stream, line.text) for line in run.logs()}
    assert lines == {
        ("n1", 0, "out", "rank 0"), ("n1", 0, "err", "oops"), ("n2", 1, "out", "rank 1"), ("n2", 1, "err", "oops"),
    }  # fmt: skip
    assert {line.rank for line in run.logs(ranks=[1])} == {1}
    assert run.status().status.outcome == outcome
    assert capfd.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is handler


def test_events_are_replayed_and_end_with_the_outcome(cluster: api.Cluster) -> None:
    run = api.start(cluster, shell("true"), QUICK)
    seen = list(run.events())
    assert isinstance(seen[-1], api.AttemptEnded)
    assert seen[-1].outcome == run.wait(timeout_s=60)
    released = next(at for at, each in enumerate(seen) if isinstance(each, api.RanksReleased))
    assert list(run.events(since=released)) == seen[released:]
    events = [each for each in seen if isinstance(each, api.Event)]
    ends = [each for each in events if each.kind is api.EventKind.RANK_ENDED]
    assert {(event.host, event.rank) for event in ends} == {("n1", 0), ("n2", 1)}


def test_the_types_in_the_signatures_of_the_api_are_public() -> None:
    methods = [each for name, each in inspect.getmembers(api.RunHandle, inspect.isfunction) if not name.startswith("_")]
    functions = [each for each in map(api.__dict__.get, api.__all__) if inspect.isfunction(each)]
    hints = [hint for each in (*functions, *methods) for hint in typing.get_type_hints(each).values()]
    types = {part for hint in hints for part in (hint, *typing.get_args(hint)) if isinstance(part, type)}
    ours = {each for each in types if each.__module__.startswith("pylaunch.")}
    assert {api.Cluster, api.ProvisionOptions} <= ours <= {vars(api)[name] for name in api.__all__}


def test_a_secret_reaches_the_ranks_of_a_start_that_runs_a_check(cluster: api.Cluster) -> None:
    checks = tuple(each for each in api.at_start_checks() if each.id == "limits.files")
    assert len(checks) == 1
    options = api.StartOptions(checks=checks, secrets=api.Secrets({"HF_TOKEN": "abcdefgh"}))
    job = api.Job(("sh", "-c", "echo ${#HF_TOKEN}"), api.Framework.COMMAND, "/", secrets=("HF_TOKEN",))
    run = api.start(cluster, job, options)
    assert run.wait(60).status is api.Status.DONE
    assert {line.text for line in run.logs()} == {"8"}


def test_a_failed_run_is_an_outcome_and_an_error_on_request(cluster: api.Cluster) -> None:
    outcome = api.start(cluster, shell("[ $RANK = 0 ] && exec sleep 60; echo boom >&2; exit 7"), QUICK).wait(60)
    assert outcome.status is api.Status.FAILED
    assert outcome.first_failure is not None
    assert (outcome.first_failure.host, outcome.first_failure.exit_code) == ("n2", 7)
    with pytest.raises(api.RunFailedError, match="rank 1 on n2 exited with code 7") as error:
        outcome.raise_for_failure()
    assert "boom" in error.value.evidence


def test_a_refused_start_is_an_outcome_with_the_reasons_by_host(nodes: DirectoryCluster, cluster: api.Cluster) -> None:
    job = api.Job(("./absent",), api.Framework.COMMAND, str(nodes.nodes["n1"].path), ranks_per_node=1)
    run = api.start(cluster, job, QUICK)
    outcome = run.wait(timeout_s=60)
    assert outcome.status is api.Status.REFUSED
    assert set(outcome.refusals) == {"n1", "n2"}
    assert [each.kind for each in run.events() if isinstance(each, api.Event)][-1] is api.EventKind.REFUSED


def test_a_timeout_leaves_the_run_alone_and_stop_proves_that_it_is_gone(cluster: api.Cluster, tmp_path: Path) -> None:
    up = tmp_path / "up"
    run = api.start(cluster, shell(f"touch {up}; exec sleep 600"), QUICK)
    appears(up)
    with pytest.raises(api.WaitTimeoutError, match="it continues"):
        run.wait(timeout_s=0.05)
    assert run.status().status.state == "running"
    stopped = run.stop()
    stopped.raise_if_unclean()
    assert stopped.clean == ("n1", "n2")
    assert run.wait(timeout_s=60).status is api.Status.STOPPED


def test_another_process_attaches_to_a_run_by_its_id(nodes: DirectoryCluster, tmp_path: Path) -> None:
    up, go = tmp_path / "up", tmp_path / "go"
    script = f"echo begun; touch {up}; until [ -e {go} ]; do sleep 0.05; done; echo ended"
    begun = nodes.start("--detach", "--skip", "all", "--", "sh", "-c", script)
    assert begun.wait(60) == 0
    appears(up)
    (name,) = nodes.outcomes()
    run = api.attach(name[:6])
    assert run.id == name
    following = run.logs(ranks=[0], follow=True)
    assert next(following).text == "begun"
    connections = [each for each in processes.mine() if each.parent == os.getpid() and " attach " in each.command]
    assert connections
    for each in connections:
        os.kill(each.pid, signal.SIGKILL)
        gone(each.pid)
    go.touch()
    assert [line.text for line in following] == ["ended"]
    assert run.wait(timeout_s=60).status is api.Status.DONE


def test_any_handle_of_a_process_stops_a_run_of_it_that_waits_in_the_queue(nodes: DirectoryCluster) -> None:
    nodes.inventory.write_text(f"{nodes.inventory.read_text()}devices=0\n")
    cluster = api.load_cluster(nodes.inventory)
    holder = api.start(cluster, shell("exec sleep 600"), QUICK)
    next(each for each in holder.events() if isinstance(each, api.RanksReleased))
    waiting = api.start(cluster, shell("true"), api.StartOptions(waits=True))
    next(each for each in waiting.events() if isinstance(each, api.Event) and each.kind is api.EventKind.WAITING)
    other = api.attach(waiting.id)
    assert other.stop().outcome.status is api.Status.STOPPED
    assert [each.wait(timeout_s=60).status for each in (waiting, other)] == [api.Status.STOPPED] * 2
    assert holder.stop(now=True).clean == ("n1", "n2")


def test_a_reader_that_leaves_early_ends_its_thread_and_not_the_run(cluster: api.Cluster, tmp_path: Path) -> None:
    run = api.start(cluster, shell("while :; do echo line; sleep 0.01; done"), QUICK)
    next(each for each in run.events() if isinstance(each, api.RanksReleased))
    taken = list(itertools.islice(run.logs(follow=True), 5))
    assert {line.text for line in taken} == {"line"}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pylaunch logs")]
    assert run.status().status.outcome is None
    assert run.stop(now=True).clean == ("n1", "n2")


def test_nobody_is_asked_about_a_run_that_is_not_recorded(cluster: api.Cluster) -> None:
    with pytest.raises(api.UnknownRunError, match="no run beef is recorded here"):
        api.attach("beef")


def test_a_run_survives_the_process_that_started_it(nodes: DirectoryCluster, tmp_path: Path) -> None:
    up = tmp_path / "up"
    program = f"""
from pylaunch.api import Framework, Job, StartOptions, load_cluster, start
job = Job(("sh", "-c", "touch {up}; exec sleep 600"), Framework.COMMAND, "/", ranks_per_node=1)
run = start(load_cluster({str(nodes.inventory)!r}), job, StartOptions())
next(each for each in run.events() if type(each).__name__ == "RanksReleased")
print(run.id)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    appears(up)
    run = api.attach(ended.stdout.strip())
    assert run.status().status.state == "running"
    assert run.stop(now=True).clean == ("n1", "n2")


def test_the_example_of_the_guide_runs(
    nodes: DirectoryCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(nodes.inventory), "--", "sh", "-c", "echo rank $RANK"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    assert {"n1:0 | rank 0", "n2:1 | rank 1"} <= set(printed.out.splitlines())
    assert " done: " in printed.err
