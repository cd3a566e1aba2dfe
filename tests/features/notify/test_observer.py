"""Notifications of the events of a run."""

import threading
from collections.abc import Sequence

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.notify.observer import LONGEST, Delivery, Notifier, observer
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run, replan
from pylaunch.model.run import Event, EventKind
from pylaunch.runs.events import AttemptEnded, AttemptStarted, RanksReleased, Start, notice
from pylaunch.terminal.doors import RunEnding

NOW = 1_780_000_000.0
SECRET = "tr0ub4dor-and-3"
JOB = JobSpec(("train.py", "--api-key", "hunter22"), Framework.COMMAND, "/srv", ranks_per_node=2, max_restarts=3)
PLAN = plan_run(Cluster((Host("gpu01", "10.0.0.1"), Host("gpu02", "10.0.0.2"))), JOB, "7f3a9c01")
AGAIN = replan(PLAN, ("gpu01", "gpu02"))
STARTED = Start({"connect": 0.5, "release": 1.0}, 0.001, 0.001, 100.0, 98.5)
FAILED = Outcome(Status.FAILED, f"rank 1 on gpu02 printed \x1b[2J\n{SECRET}", NOW, (), {})


class Kept(Delivery):
    """A target that keeps its notifications."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.last: dict[str, object] = {}

    def put(self, notification: dict[str, object]) -> None:
        self.last = notification
        self.texts.append(str(notification["text"]))

    def close(self, until: float) -> None:
        """Have nothing left."""


def notifier(secrets: Sequence[str] = (SECRET,)) -> tuple[Notifier, Kept]:
    kept = Kept()
    return Notifier([kept], secrets), kept


def test_there_is_a_notification_of_the_start_each_restart_and_the_end() -> None:
    run, kept = notifier()
    run.on_event(AttemptStarted(PLAN))
    run.on_event(RanksReleased(PLAN, STARTED))
    run.on_event(AttemptEnded(PLAN, FAILED, 3.0))
    run.on_event(Event(NOW, EventKind.RESTARTING, text="restart 1 of 3 (gpu02 is replaced): run 7f3a9c01.1"))
    run.on_event(AttemptStarted(AGAIN))
    assert (kept.last["event"], kept.last["run"]) == ("restart", "7f3a9c01.1")
    run.on_event(RanksReleased(AGAIN, STARTED))
    run.at_end(RunEnding(PLAN.run, replace(FAILED, status=Status.DONE, reason="all ended")))
    start, restart, end = kept.texts
    assert start == "pylaunch run 7f3a9c01: started: 4 ranks on gpu[01-02], in 1.5 s"
    assert restart.startswith("pylaunch run 7f3a9c01.1: restart 1 of 3 (gpu02 is replaced): run 7f3a9c01.1; rank 1 on")
    assert end == "pylaunch run 7f3a9c01.1: done: all ended"


def test_there_is_a_notification_of_a_hang_and_its_end_and_none_of_progress() -> None:
    run, kept = notifier()
    run.on_event(AttemptStarted(PLAN))
    run.on_event(Event(NOW, EventKind.HANG, text="hang: rank 1 waits"))
    assert kept.last["event"] == "hang"
    run.on_event(Event(NOW, EventKind.ADVANCING, text="ranks advance"))
    run.on_event(Event(NOW, EventKind.RANK_STARTED, "gpu01", 0))
    run.on_event(notice("progress"))
    assert kept.texts == ["pylaunch run 7f3a9c01: hang: rank 1 waits", "pylaunch run 7f3a9c01: ranks advance"]


def test_output_of_ranks_is_one_masked_line_that_no_terminal_obeys() -> None:
    run, kept = notifier()
    run.on_event(AttemptStarted(PLAN))
    run.at_end(RunEnding(PLAN.run, FAILED))
    assert kept.texts == [r"pylaunch run 7f3a9c01: failed: rank 1 on gpu02 printed \x1b[2J\n***"]
    assert "hunter22" not in str(kept.last)
    run.at_end(RunEnding(PLAN.run, replace(FAILED, reason="x" * 100_000)))
    assert len(kept.texts[-1]) == len(str(kept.last["reason"])) == LONGEST + 1


def test_secrets_of_the_job_are_masked_whatever_their_names_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSN", f"{SECRET}-dsn")
    run, kept = notifier(())
    job = replace(JOB, env={"HF_TOKEN": f"{SECRET}-env"}, secrets=("DSN",))
    run.on_event(AttemptStarted(plan_run(PLAN.cluster, job, PLAN.run)))
    run.at_end(RunEnding(PLAN.run, replace(FAILED, reason=f"bad login {SECRET}-env, {SECRET}-dsn")))
    assert kept.last["reason"] == "bad login ***, ***"


def test_a_refused_start_has_a_notification_with_its_error_also_before_any_attempt() -> None:
    run, kept = notifier()
    run.at_end(RunEnding("7f3a9c01", None, ClusterNotReadyError("2 of 2 nodes refused")))
    assert kept.texts == ["pylaunch run 7f3a9c01: refused: 2 of 2 nodes refused"]


def test_an_interrupt_while_the_end_waits_for_a_target_changes_nothing_about_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = threading.Event()
    monkeypatch.setattr(Delivery, "_deliver_all", lambda self: held.wait())

    def interrupted(self: threading.Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    run = observer(["http://127.0.0.1:9/"])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", interrupted)
        run.at_end(RunEnding(PLAN.run, None))
    held.set()
    assert "warning: --notify http://127.0.0.1/…: not delivered: interrupted" in capsys.readouterr().err
