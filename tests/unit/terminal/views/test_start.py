from collections.abc import Sequence

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run, replan
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runs.events import (
    AttemptEnded,
    AttemptStarted,
    LinesWritten,
    StartEvent,
)
from pylaunch.terminal.views.start import RunView, lines

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
PLAN = plan_run(CLUSTER, JobSpec(("true",), Framework.COMMAND, "/", spares=1, max_restarts=3), "7f3a9c01")


def shown(event: StartEvent) -> str:
    return "\n".join(lines(event))


def test_a_line_for_a_person_is_shown_as_it_is_and_what_views_draw_is_not() -> None:
    text = "restart 1 of 3 (n2 in place of n1: lost): run 7f3a9c01.1"
    assert shown(Event(1.0, EventKind.RESTARTING, text=text)) == text
    assert shown(Event(1.0, EventKind.PREPARED, "n1")) == ""


TIMING = "first line of code on 2 ranks: 500 ms after the release, skew 100.0 ms"
RESTARTED = plan_run(CLUSTER, JobSpec(("true",), Framework.COMMAND, "/", max_restarts=3), "7f3a9c01")
TRACEBACK = LinesWritten("n1", "0.err", "ValueError: bad batch\n", 2.43)


def begun(capsys: pytest.CaptureFixture[str], *before: StartEvent, after: Sequence[StartEvent] = ()) -> list[str]:
    """Return the lines of an attempt whose last rank reports its first line between these events."""
    with RunView() as view:
        view.show(AttemptStarted(RESTARTED))
        for rank in (0, 1):
            view.show(Event(2.0, EventKind.RANK_STARTED, f"n{rank + 1}", rank))
        view.show(Event(2.4, EventKind.FIRST_LINE, "n1", 0))
        for event in before:
            view.show(event)
        view.show(Event(2.5, EventKind.FIRST_LINE, "n2", 1))
        for event in after:
            view.show(event)
    return capsys.readouterr().err.splitlines()


def ended(status: Status) -> AttemptEnded:
    return AttemptEnded(RESTARTED, Outcome(status, "why", 9.0, (), {}), 6.5)


def test_the_first_lines_of_code_are_timed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    end = Event(2.45, EventKind.RANK_ENDED, "n1", 0, "exited with code 0")
    printed = LinesWritten("n1", "0.out", "epoch 1\n", 2.43)
    assert begun(capsys, end, printed)[-1] == TIMING


def test_the_first_lines_of_code_are_not_timed_after_the_reason_of_a_stop(capsys: pytest.CaptureFixture[str]) -> None:
    stop = Event(2.45, EventKind.STOP_ASKED, text="rank 0 on n1 exited with code 1")
    assert TIMING not in begun(capsys, stop, after=[ended(Status.FAILED)])


def test_the_first_lines_of_code_are_not_timed_between_a_traceback_and_its_stop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stop = Event(2.55, EventKind.STOP_ASKED, text="rank 0 on n1 exited with code 1")
    printed = begun(capsys, TRACEBACK, after=[stop, ended(Status.FAILED)])
    assert TIMING not in printed
    assert "stopping all nodes: rank 0 on n1 exited with code 1" in printed


def test_after_a_warning_a_short_run_is_timed_at_its_good_end(capsys: pytest.CaptureFixture[str]) -> None:
    printed = begun(capsys, TRACEBACK, after=[ended(Status.DONE)])
    assert printed[-3] == TIMING


def test_an_attempt_after_a_failed_one_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    stop = Event(2.55, EventKind.STOP_ASKED, text="rank 0 on n1 exited with code 1")
    again: list[StartEvent] = [
        AttemptStarted(replan(RESTARTED, ("n1", "n2"))),
        *(Event(2.0, EventKind.RANK_STARTED, f"n{rank + 1}", rank) for rank in (0, 1)),
        *(Event(2.4 + rank / 10, EventKind.FIRST_LINE, f"n{rank + 1}", rank) for rank in (0, 1)),
    ]
    printed = begun(capsys, TRACEBACK, after=[stop, *again])
    assert printed.index(TIMING) > printed.index("stopping all nodes: rank 0 on n1 exited with code 1")


RAISED = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    train()\nValueError: no shard 7\n'
)


def test_the_traceback_of_the_named_rank_is_shown_once_and_those_of_victims_are_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    end = RankEnd(
        0, "n1", 1, None, 8.0, stopped=False, error="ValueError: no shard 7", last_lines=(*RAISED.split("\n")[:-1],)
    )
    outcome = Outcome(Status.FAILED, "why", 9.0, (end,), {}, first_failure=end)
    before, late = (
        LinesWritten("n1", "0.err", RAISED, 8.0),
        LinesWritten("n2", "1.err", "[rank1]: " + RAISED, 8.5),
    )
    stop = Event(8.2, EventKind.STOP_ASKED, text="a rank has failed")
    for events in ((before, stop, late), (stop, before, late)):
        with RunView() as view:
            for event in (AttemptStarted(PLAN), *events, AttemptEnded(PLAN, outcome, 1.0)):
                view.show(event)
        printed = capsys.readouterr().err
        assert printed.count('File "train.py"') == 1
        assert printed.count("Traceback … ValueError: no shard 7") == len(events) - events.index(stop) - 1
