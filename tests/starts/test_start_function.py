"""A start without a command line: in a thread, reporting events, ended by a call."""

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pylaunch.inventory import load_cluster
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import Event, EventKind
from pylaunch.render import plan_start
from pylaunch.runs.events import AttemptEnded, RanksReleased, StartEvent, clock_now
from pylaunch.runs.prepare.session import NodesRefusedError
from pylaunch.runs.start import StartOptions, start
from pylaunch.runs.start_checks import ChecksFailedError, at_start_checks
from pylaunch.store import runs
from pylaunch.store.runs import user_and_host
from pylaunch.transport.interrupts import Interrupter
from tests.starts.cluster import DirectoryCluster

WITHIN_S = 60.0


class Events:
    """The events of a start, which runs in a thread of its own."""

    def __init__(self) -> None:
        self.seen: list[StartEvent] = []
        self._news = threading.Condition()

    def add(self, event: StartEvent) -> None:
        with self._news:
            self.seen.append(event)
            self._news.notify_all()

    def wait_for(self, kind: type[StartEvent]) -> None:
        with self._news:
            assert self._news.wait_for(lambda: any(isinstance(each, kind) for each in self.seen), WITHIN_S), self.seen

    def kinds(self) -> list[type]:
        return [type(each) for each in self.seen]


def started(
    cluster: DirectoryCluster, events: Events, interrupter: Interrupter, *words: str, restarts: int = 0
) -> Callable[[], Outcome]:
    """Start `words` in a thread; the function that is returned waits for the outcome."""
    job = JobSpec(words, Framework.COMMAND, "/", max_restarts=restarts)
    planned = plan_start(load_cluster(cluster.inventory), job, runs.new_run_id(), lambda text: None)
    pool = ThreadPoolExecutor(1)
    future = pool.submit(start, planned, StartOptions(at_start_checks()), events.add, interrupter)
    pool.shutdown(wait=False)
    return lambda: future.result(WITHIN_S)


def test_an_interrupter_stops_the_ranks_and_a_run_that_it_ends_is_not_restarted(
    directories: Callable[..., DirectoryCluster],
) -> None:
    events, interrupter = Events(), Interrupter()
    outcome = started(directories("n1"), events, interrupter, "sleep", "600", restarts=3)
    events.wait_for(RanksReleased)
    interrupter.interrupt("stopped by a notebook")
    assert (outcome().status, outcome().reason) == (Status.STOPPED, f"stopped by a notebook ({user_and_host()})")
    assert EventKind.RESTARTING not in {each.kind for each in events.seen if isinstance(each, Event)}
    (record,) = [runs.read(run) for run in runs.ids()]
    assert record.outcome is not None
    assert record.outcome.status is Status.STOPPED


def test_a_failed_check_is_an_error_with_its_findings_and_its_reasons_by_host(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    cluster.nodes["n2"].has_few_files().touch()
    events = Events()
    with pytest.raises(ChecksFailedError) as refused:
        started(cluster, events, Interrupter(), "true")()
    assert list(refused.value.reasons) == ["n2"]
    assert [finding.hosts for finding in refused.value.findings] == [("n2",)]
    assert AttemptEnded not in events.kinds()


def test_a_node_that_is_gone_between_its_preparation_and_the_release_refuses_the_start_of_all(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")

    def kill_an_agent(lead_s: float) -> float:
        (agent,) = cluster.nodes["n2"].agents()
        os.kill(agent, signal.SIGKILL)
        return clock_now() + lead_s

    job = JobSpec(("touch", str(tmp_path / "began")), Framework.COMMAND, "/")
    planned = plan_start(load_cluster(cluster.inventory), job, runs.new_run_id(), lambda event: None)
    with pytest.raises(NodesRefusedError, match="so no rank was started") as refused:
        start(planned, StartOptions(hold=kill_an_agent), lambda event: None, Interrupter())
    (reason,) = refused.value.reasons["n2"]
    assert reason.startswith("it was ready, and then: the agent closed the connection")
    assert not (tmp_path / "began").exists()
