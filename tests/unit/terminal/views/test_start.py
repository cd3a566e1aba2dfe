import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runs.events import (
    AttemptEnded,
    AttemptStarted,
    LinesWritten,
    StartEvent,
)
from pylaunch.terminal.views.live import RunView, lines

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
PLAN = plan_run(CLUSTER, JobSpec(("true",), Framework.COMMAND, "/", spares=1, max_restarts=3), "7f3a9c01")


def shown(event: StartEvent) -> str:
    return "\n".join(lines(event))


def test_a_line_for_a_person_is_shown_as_it_is_and_what_views_draw_is_not() -> None:
    text = "restart 1 of 3 (n2 in place of n1: lost): run 7f3a9c01.1"
    assert shown(Event(1.0, EventKind.RESTARTING, text=text)) == text
    assert shown(Event(1.0, EventKind.PREPARED, "n1")) == ""


RAISED = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    train()\nValueError: no shard 7\n'
)


def test_tracebacks_of_a_run_that_is_stopped_are_one_line_and_the_report_has_that_of_the_named_rank(
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
        assert printed.count('File "train.py"') == 1 + events.index(stop)
        assert printed.count("Traceback … ValueError: no shard 7") == len(events) - events.index(stop) - 1
