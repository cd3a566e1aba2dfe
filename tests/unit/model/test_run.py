"""Facts that a record has of its run."""

from dataclasses import replace

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind, RunRecord

PLAN = plan_run(Cluster((Host("n1", "10.0.0.1"),)), JobSpec(("a",), Framework.COMMAND, "/"), "7f3a9c01")


def record(*kinds: EventKind) -> RunRecord:
    return RunRecord(PLAN, "v", 1.0, tuple(Event(2.0, kind) for kind in kinds), None)


@pytest.mark.parametrize("kinds", [(), (EventKind.PREPARED,), (EventKind.REFUSED,)])
def test_a_run_that_was_released_or_found_running_has_started(kinds: tuple[EventKind, ...]) -> None:
    assert not record(*kinds).has_started
    assert record(*kinds, EventKind.RELEASED).has_started
    assert record(*kinds, EventKind.ATTACHED).has_started


def test_a_hang_is_remembered_until_ranks_advance_or_it_ends_the_run() -> None:
    assert record(EventKind.RELEASED).last_hang is None
    hung = record(EventKind.HANG, EventKind.ADVANCING, EventKind.HANG, EventKind.RANK_ENDED)
    assert hung.last_hang is hung.events[2]
    assert record(EventKind.HANG, EventKind.ADVANCING).last_hang is None
    by_hand = Outcome(Status.STOPPED, "interrupted", 3.0, (), {})
    assert replace(hung, outcome=by_hand).last_hang is hung.events[2]
    by_hang = replace(by_hand, hang=HangFinding(HangKind.STUCK, "x", Confidence.HIGH))
    assert replace(hung, outcome=by_hang).last_hang is None
