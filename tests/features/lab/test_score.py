"""A drill is right only if the fault was detected, with its cause and its rank, and nothing remains."""

from dataclasses import replace

import pytest

from lab.drill.catalogue import Drill, Effect, Library, NodeFault, Subject
from lab.drill.command import totals
from lab.drill.score import Naming, Observed, score
from pylaunch.model.diagnosis.cause import FailureCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.outcome import Named, Outcome, Status
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.node_evidence import RankEnd

GUILTY = Named("n2", 1)
RAISES = Drill(Library.TORCH, "raises", Effect.ENDS, ("loss is NaN",), ("rank-failed",))
LOCK = Drill(Library.TORCH, "waits_for_a_lock", Effect.HANGS, ("waits_for_a_lock",))


def end(rank: int, host: str, time: float, *, stopped: bool = False) -> RankEnd:
    return RankEnd(rank, host, 1, None, time, stopped)


def failed(
    reason: str = "rank 1 on n2: loss is NaN", *, kind: str = "rank-failed", named: Named | None = GUILTY
) -> Outcome:
    ends = (end(1, "n2", 100.0), end(0, "n1", 100.5, stopped=True))
    cause = FailureCause(kind, reason, Confidence.HIGH, named)
    return Outcome(Status.FAILED, reason, 101.0, ends, {}, named=named, causes=(cause,))


def seen(outcome: Outcome | None, *events: Event) -> Observed:
    return Observed(outcome, GUILTY, events, fault_at=99.0, verdict_at=101.5)


def hang(text: str, host: str | None = "n2", rank: int | None = 1) -> Event:
    return Event(140.0, EventKind.HANG, host, rank, text)


def test_a_right_verdict_is_right_and_its_seconds_count_from_the_first_death() -> None:
    found = score(RAISES, seen(failed()))
    assert found.is_right
    assert found.seconds == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("outcome", "detected", "cause", "naming"),
    [
        (failed(named=Named("n1", 0)), True, True, Naming.WRONG),
        (failed(named=Named("n2", None)), True, True, Naming.WRONG),
        (failed(named=None), True, True, Naming.NOBODY),
        (failed("rank 1 on n2 exited"), True, False, Naming.RIGHT),
        (failed(kind="storage"), True, False, Naming.RIGHT),
        (replace(failed(), hang=HangFinding(HangKind.STUCK, "x", Confidence.HIGH)), False, False, Naming.NOBODY),
        (Outcome(Status.DONE, "every rank exited with code 0", 101.0, (), {}), False, False, Naming.NOBODY),
        (None, False, False, Naming.NOBODY),
    ],
)
def test_each_part_of_a_verdict_is_scored_apart(
    outcome: Outcome | None, detected: bool, cause: bool, naming: Naming
) -> None:
    found = score(RAISES, seen(outcome))
    assert (found.is_detected, found.has_right_cause, found.naming) == (detected, cause, naming)
    assert not found.is_right
    assert found.is_acceptable is (detected and naming is not Naming.WRONG)


def test_what_remains_on_a_node_spoils_a_right_verdict() -> None:
    found = score(RAISES, replace(seen(failed()), leftovers={"n1": ("4711 python",)}))
    assert not found.is_right
    assert not found.is_acceptable
    assert found.leftovers == ("n1: 4711 python",)


def test_a_fault_of_a_node_must_name_the_node_and_no_rank() -> None:
    power = replace(RAISES, texts=("lost",), kinds=("node-lost",), subject=Subject.NODE, node_fault=NodeFault.POWER)
    assert score(power, seen(failed("n2 lost", kind="node-lost", named=Named("n2", None)))).is_right
    assert score(power, seen(failed("n2 lost", kind="node-lost", named=GUILTY))).naming is Naming.WRONG


def test_a_hang_is_scored_by_its_first_report_and_its_seconds_count_from_the_fault() -> None:
    found = score(LOCK, seen(failed(), hang("hang: rank 1 is in waits_for_a_lock"), hang("hang: other", "n1", 0)))
    assert found.is_right
    assert found.seconds == pytest.approx(41.0)


def test_totals_count_each_kind_of_mistake() -> None:
    scores = [
        score(RAISES, seen(failed())),
        score(RAISES, seen(failed(named=None))),
        score(RAISES, seen(failed(named=Named("n1", 0)))),
        score(RAISES, replace(seen(failed()), leftovers={"n1": ("4711 python",)})),
        score(RAISES, seen(None)),
    ]
    assert totals(scores) == ("5", "4", "4", "2", "2", "1", "1.5 / 1.5", "1")
