"""Masks of the observer of --notify, and an interrupt while it waits."""

import threading

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.features.notify import observer as observing
from pylaunch.features.notify.notification import Notification
from pylaunch.features.notify.observer import observer
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.runs.start_events import AttemptStarted
from pylaunch.terminal.doors import RunEnding
from tests.features.notify.test_notification import JOB, NOW, PLAN

SECRET = "tr0ub4dor-and-4"


def test_secrets_of_the_job_are_masked_whatever_their_names_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSN", f"{SECRET}-dsn")
    queued: list[Notification] = []
    monkeypatch.setattr(observing._TargetQueue, "put", lambda self, notification: queued.append(notification))
    monkeypatch.setattr(observing._TargetQueue, "close", lambda self, until: None)
    job = replace(JOB, env={"HF_TOKEN": f"{SECRET}-env"}, secrets=("DSN",))
    notifier = observer(["command:true"])
    notifier.on_event(AttemptStarted(plan_run(PLAN.cluster, job, PLAN.run)))
    reason = f"bad login {SECRET}-env, {SECRET}-dsn"
    notifier.at_end(RunEnding(PLAN.run, Outcome(Status.FAILED, reason, NOW, (), {})))
    assert queued[-1].reason == "bad login ***, ***"


def test_an_interrupt_while_the_end_waits_for_a_target_changes_nothing_about_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = threading.Event()
    monkeypatch.setattr(observing._TargetQueue, "_deliver_all", lambda self: held.wait())

    def interrupted(self: threading.Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    notifier = observer(["command:true"])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", interrupted)
        notifier.at_end(RunEnding(PLAN.run, None))
    held.set()
    assert "warning: --notify command:true: not delivered: interrupted" in capsys.readouterr().err
