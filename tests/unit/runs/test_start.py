from collections.abc import Iterator

import pytest

from pylaunch import api
from pylaunch.base.dataclass import replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.run import Event
from pylaunch.render import planned_run
from pylaunch.runs import start
from pylaunch.runs.events import RunBegun, StartEvent
from pylaunch.runs.prepare.session import TakenError
from pylaunch.runs.restart import Attempt
from pylaunch.runs.start import run_attempts
from pylaunch.store import runs

CLUSTER = Cluster(tuple(Host(name, f"10.0.0.{at}") for at, name in enumerate(("n1", "n2", "s1"), 1)))
JOB = JobSpec(("train.py",), Framework.TORCHRUN, "/home/ml", spares=1, max_restarts=3)


class Story:
    """Attempts with given outcomes, and the reports about them."""

    def __init__(self, *ends: Outcome, stopped: bool = False) -> None:
        self.reports: list[Event] = []
        self.started: list[tuple[str, tuple[str, ...]]] = []
        self._ends: Iterator[Outcome] = iter(ends)
        self._is_stopped = stopped

    def _attempt(self, plan: RunPlan) -> Attempt:
        self.started.append((plan.run, plan.cluster.names))
        return Attempt(plan.cluster.names, next(self._ends), 1.0)

    def play(self, job: JobSpec = JOB) -> Attempt:
        plan = plan_run(CLUSTER, job, "7f3a9c01")
        return run_attempts(plan, self._attempt, lambda: self._is_stopped, self._report)

    def _report(self, event: StartEvent) -> None:
        assert isinstance(event, Event)
        self.reports.append(event)


def lost(host: str) -> Outcome:
    return Outcome(Status.FAILED, "", 0.0, (), {}, (host,))


DONE = Outcome(Status.DONE, "", 0.0, (), {})


def test_a_lost_node_is_replaced_and_the_run_continues() -> None:
    story = Story(lost("n1"), DONE)
    assert story.play().outcome is DONE
    assert story.started == [("7f3a9c01", ("n1", "n2")), ("7f3a9c01.1", ("s1", "n2"))]
    (restarting,) = story.reports
    assert restarting.text == "restart 1 of 3 (s1 in place of n1: lost): run 7f3a9c01.1"


def test_without_replacement_hosts_the_run_ends() -> None:
    story = Story(lost("n1"), lost("n2"))
    assert story.play().outcome.unproven == ("n2",)
    assert story.reports[-1].text == ("no restart: 1 of 3 hosts are left, and the run needs 2; left out: n[1-2] (lost)")


def test_a_run_that_was_stopped_between_attempts_is_not_restarted() -> None:
    story = Story(lost("n1"), stopped=True)
    story.play()
    assert len(story.started) == 1
    assert [each.text for each in story.reports] == ["no restart: the run was stopped"]


def test_a_queued_run_that_loses_its_turn_waits_again_as_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the background, too: its half at the terminal hears which run has started."""
    tried: list[str] = []

    def to_its_end(attempt: start._Attempt) -> Attempt:
        tried.append(attempt.plan.run)
        if len(tried) == 1:
            raise TakenError("device 0 is taken", {}, evidence=[], hint=None)
        return Attempt(("n1",), DONE, 1.0)

    monkeypatch.setattr(start._Attempt, "to_its_end", to_its_end)
    events: list[StartEvent] = []
    options = start.StartOptions(waits=True)
    recorded = start.begin(planned_run(plan_run(CLUSTER, JOB, "7f3a9c01")), options, events.append)
    assert start.run(recorded, options, events.append) is DONE
    assert tried[0] == "7f3a9c01" != tried[1]
    begun = [each.plan.run for each in events if isinstance(each, RunBegun)]
    assert begun == tried
    tried.clear()
    with pytest.raises(TakenError):
        start.run(recorded, start.StartOptions(), events.append)


def test_the_handle_of_a_run_that_loses_its_turn_is_that_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def to_its_end(attempt: start._Attempt) -> Attempt:
        run = attempt.plan.run
        tried.append(run)
        runs.Recorder(run, pytest.fail).finish(Outcome(Status.REFUSED, run, 0.0, (), {}))
        if len(tried) == 1:
            raise TakenError("device 0 is taken", {}, evidence=[], hint=None)
        raise ClusterNotReadyError("n1 is down")

    monkeypatch.setattr(start._Attempt, "to_its_end", to_its_end)
    handle = api.start(CLUSTER, replace(JOB, spares=0, max_restarts=0), start.StartOptions(waits=True))
    assert handle.wait(60).reason == tried[1] != tried[0]
    assert handle.id == tried[1]
