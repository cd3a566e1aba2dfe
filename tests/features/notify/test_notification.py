"""Notifications of the events of a run."""

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.notify.notification import LONGEST, Moment, Narration, Notification
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run, replan
from pylaunch.model.run import Event, EventKind
from pylaunch.model.text.redaction import Redaction
from pylaunch.runs.attempts import Restarting
from pylaunch.runs.follow.run_events import Notice
from pylaunch.runs.prepare.session import Start
from pylaunch.runs.start_events import AttemptEnded, AttemptStarted, RanksReleased
from pylaunch.terminal.doors import RunEnding

NOW = 1_780_000_000.0
SECRET = "tr0ub4dor-and-3"
JOB = JobSpec(("train.py", "--api-key", "hunter22"), Framework.COMMAND, "/srv", ranks_per_node=2, max_restarts=3)
PLAN = plan_run(Cluster((Host("gpu01", "10.0.0.1"), Host("gpu02", "10.0.0.2"))), JOB, "7f3a9c01")
AGAIN = replan(PLAN, ("gpu01", "gpu02"))
STARTED = Start({"connect": 0.5, "release": 1.0}, 0.001, 0.001, 100.0, 98.5)
FAILED = Outcome(Status.FAILED, f"rank 1 on gpu02 printed \x1b[2J\n{SECRET}", NOW, (), {})


@pytest.fixture
def narration() -> Narration:
    made = Narration(Redaction([SECRET]).hide)
    assert made.of_event(AttemptStarted(PLAN), NOW) is None
    return made


def present(notification: Notification | None) -> Notification:
    assert notification is not None
    return notification


def test_there_is_a_notification_of_the_start_each_restart_and_the_end(narration: Narration) -> None:
    start = present(narration.of_event(RanksReleased(PLAN, STARTED), NOW))
    assert start.text == "pylaunch run 7f3a9c01: started: 4 ranks on gpu[01-02], in 1.5 s"
    assert narration.of_event(AttemptEnded(PLAN, FAILED, 3.0), NOW) is None
    restart = present(narration.of_event(Restarting(AGAIN, "gpu02 is replaced"), NOW))
    assert (restart.moment, restart.run) == (Moment.RESTART, "7f3a9c01.1")
    assert restart.reason.startswith("restart 1 of 3; rank 1 on gpu02 printed")
    assert restart.reason.endswith("; gpu02 is replaced")
    assert narration.of_event(AttemptStarted(AGAIN), NOW) is None
    assert narration.of_event(RanksReleased(AGAIN, STARTED), NOW) is None
    end = present(narration.of_end(RunEnding(PLAN.run, replace(FAILED, status=Status.DONE, reason="all ended")), NOW))
    assert end.text == "pylaunch run 7f3a9c01.1: done: all ended"


def test_there_is_a_notification_of_a_hang_and_its_end_and_none_of_progress(narration: Narration) -> None:
    hang = present(narration.of_event(Event(NOW, EventKind.HANG, text="hang: rank 1 waits"), NOW))
    assert (hang.moment, hang.text) == (Moment.HANG, "pylaunch run 7f3a9c01: hang: rank 1 waits")
    assert (
        present(narration.of_event(Event(NOW, EventKind.ADVANCING, text="ranks advance"), NOW)).moment.value
        == "advancing"
    )
    assert narration.of_event(Event(NOW, EventKind.RANK_STARTED, "gpu01", 0), NOW) is None
    assert narration.of_event(Notice("progress"), NOW) is None


def test_output_of_ranks_is_one_masked_line_that_no_terminal_obeys(narration: Narration) -> None:
    end = present(narration.of_end(RunEnding(PLAN.run, FAILED), NOW))
    assert end.text == r"pylaunch run 7f3a9c01: failed: rank 1 on gpu02 printed \x1b[2J\n***"
    assert "hunter22" not in str(end.as_data())
    endless = present(narration.of_end(RunEnding(PLAN.run, replace(FAILED, reason="x" * 100_000)), NOW))
    assert len(endless.text) == len(endless.reason) == LONGEST + 1


def test_a_refused_start_has_a_notification_with_its_error_also_before_any_attempt() -> None:
    error = ClusterNotReadyError("2 of 2 nodes refused")
    end = present(Narration(str).of_end(RunEnding("7f3a9c01", None, error), NOW))
    assert (end.status, end.text) == ("refused", "pylaunch run 7f3a9c01: refused: 2 of 2 nodes refused")
