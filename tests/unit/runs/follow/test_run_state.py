from dataclasses import replace
from datetime import timedelta

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.outcome import Named, Status
from pylaunch.protocol.node_evidence import HostEvidence, RankEnd, RankState, StuckConnection
from pylaunch.runs.follow.run_state import RunState, StopAll

GRACE = timedelta(seconds=1)
TWO = RunState({"n1": frozenset({0}), "n2": frozenset({1})})


def end(rank: int | None, host: str, *, code: int | None = 0, signal: int | None = None, at: float = 5.0,
        stopped: bool = False) -> RankEnd:  # fmt: skip
    return RankEnd(rank, host, code if signal is None else None, signal, at, stopped)


def finished(state: RunState) -> RunState:
    return state.with_finished("n1", (), GRACE).with_finished("n2", (), GRACE)


def test_a_good_end_stops_nobody() -> None:
    assert TWO.with_end(end(0, "n1"), GRACE).stop is None


def test_the_first_bad_end_stops_all_and_says_why() -> None:
    state = TWO.with_end(end(1, "n2", signal=9), GRACE)
    shown = "a rank has failed; the cause follows"
    assert state.stop == StopAll("rank 1 on n2 was killed by SIGKILL", GRACE, shown=shown)


def test_an_end_on_request_is_no_failure() -> None:
    state = TWO.with_end(end(1, "n2", signal=15, stopped=True), GRACE)
    assert state.stop is None
    assert finished(state.with_stop_by_hand("by ada", GRACE, 4.0)).outcome(9.0).status is Status.STOPPED


def test_what_fails_once_a_person_has_stopped_the_run_is_a_consequence() -> None:
    stopped = TWO.with_stop_by_hand("by ada", GRACE, 5.0)
    for at in (4.95, 6.0):
        outcome = finished(stopped.with_end(end(1, "n2", code=1, at=at), GRACE)).outcome(9.0)
        assert (outcome.status, outcome.reason, outcome.by_hand) == (Status.STOPPED, "by ada", True)
    outcome = finished(stopped.with_end(end(1, "n2", code=1, at=4.0), GRACE)).outcome(9.0)
    assert (outcome.status, outcome.by_hand) == (Status.FAILED, True)


def test_a_run_whose_ranks_all_failed_once_a_person_had_stopped_it_is_not_called_done() -> None:
    """They ended before the order to stop arrived, so none of them was stopped."""
    state = TWO.with_stop_by_hand("by ada", GRACE, 5.0)
    for rank in range(2):
        state = state.with_end(end(rank, f"n{rank + 1}", code=1, at=5.05), GRACE)
    outcome = finished(state).outcome(9.0)
    assert (outcome.status, outcome.reason) == (Status.STOPPED, "by ada")


def test_a_lost_node_stops_the_others() -> None:
    state = TWO.with_lost("n2", "no route to host", GRACE)
    assert state.stop is not None
    assert state.live == ("n1",)
    outcome = state.with_finished("n1", (), GRACE).outcome(9.0)
    assert outcome.status is Status.FAILED
    assert outcome.unproven == ("n2",)
    assert outcome.reason == "n2 lost: no route to host"


def test_the_failure_of_a_rank_that_its_agent_reported_to_the_others_is_the_cause_though_the_agent_is_lost_then() -> (
    None
):
    """Its connection ended, and the controller cannot reach it again: the directory of the run cannot be read."""
    state = TWO.with_stopping("n2: rank 1 ended with exit code 3", GRACE).with_finished("n1", (), GRACE)
    outcome = state.with_lost("n2", "no heartbeat for 10 s", GRACE, host_answers=True).outcome(9.0)
    first = "rank 1 on n2 ended with exit code 3, as its agent reported to the other nodes"
    assert outcome.reason == f"{first}; later: n2 answers, but no heartbeat for 10 s"
    assert outcome.named == Named("n2", 1)
    assert [cause.kind for cause in outcome.causes] == ["rank-failed"]


@pytest.mark.parametrize(
    "stopping",
    [
        "n2: rank 1 lost the connection to another rank",
        "n2: rank 0 ended with exit code 3",
        "n1: rank 0 ended with exit code 3",
    ],
    ids=["a victim", "a rank of another node", "another node"],
)
def test_other_reasons_of_a_stop_do_not_explain_a_lost_node(stopping: str) -> None:
    state = TWO.with_stopping(stopping, GRACE).with_finished("n1", (), GRACE).with_lost("n2", "no route", GRACE)
    assert state.outcome(9.0).reason == "n2 lost: no route"


def test_an_agent_that_is_lost_stops_the_others_and_its_host_is_not_called_lost() -> None:
    state = TWO.with_lost("n2", "its agent ended", GRACE, host_answers=True)
    assert state.stop == StopAll("n2 answers, but its agent ended", GRACE)
    outcome = state.with_finished("n1", (), GRACE).outcome(9.0)
    assert (outcome.status, outcome.reason) == (Status.FAILED, "n2 answers, but its agent ended")
    assert (outcome.unproven, outcome.answering) == (("n2",), ("n2",))


def test_a_node_that_is_lost_after_its_ranks_ended_well_stops_and_fails_nobody() -> None:
    state = TWO.with_end(end(1, "n2"), GRACE).with_lost("n2", "no route to host", GRACE)
    assert state.stop is None
    outcome = state.with_end(end(0, "n1"), GRACE).with_finished("n1", (), GRACE).outcome(9.0)
    assert (outcome.status, outcome.unproven) == (Status.DONE, ("n2",))
    assert outcome.reason == "every rank exited with code 0; n2 lost: no route to host"


def test_a_node_that_is_lost_before_its_ranks_are_known_to_have_ended_fails_the_run() -> None:
    state = TWO.with_end(end(0, "n1"), GRACE).with_finished("n1", (), GRACE).with_lost("n2", "no route", GRACE)
    outcome = state.outcome(9.0)
    assert (outcome.status, outcome.reason) == (Status.FAILED, "n2 lost: no route")


def test_a_run_that_its_nodes_stopped_by_themselves_says_why() -> None:
    state = TWO.with_stopping("n2 lost: no heartbeat for 10 s", GRACE).with_stopping("n2: no controller", GRACE)
    assert state.stop is not None
    state = finished(state.with_end(end(0, "n1", signal=15, stopped=True), GRACE))
    outcome = state.outcome(9.0)
    assert (outcome.status, outcome.reason) == (Status.FAILED, "n2 lost: no heartbeat for 10 s")


def test_a_launcher_that_stumbles_after_its_ranks_ended_well_is_no_failure() -> None:
    state = TWO.with_end(end(0, "n1"), GRACE).with_end(end(None, "n1", code=1, at=6.0), GRACE)
    assert state.stop is None
    assert TWO.with_end(end(1, "n2"), GRACE).with_end(end(None, "n1", code=1), GRACE).stop is not None


def test_orders_to_stop_only_get_more_urgent_and_keep_their_first_reason() -> None:
    state = TWO.ordered(StopAll("by hand", timedelta(seconds=10))).ordered(StopAll("again", timedelta(0)))
    assert state.stop == StopAll("by hand", timedelta(0))
    assert state.ordered(StopAll("late", timedelta(seconds=30))).stop == state.stop


def test_a_node_that_never_started_its_ranks_stops_those_that_wait_for_it() -> None:
    state = TWO.with_finished("n2", (), GRACE)
    assert state.stop == StopAll("not all ranks of n2 were ever started", GRACE)
    assert state.live == ("n1",)
    assert TWO.with_unknown("n2", GRACE).stop == StopAll("n2 knows nothing of the run", GRACE)
    assert TWO.with_end(end(1, "n2"), GRACE).with_finished("n2", (), GRACE).stop is None


def test_done_needs_every_rank() -> None:
    half = finished(TWO.with_end(end(0, "n1"), GRACE))
    assert (half.outcome(9.0).status, half.outcome(9.0).reason) == (Status.FAILED, "ranks of n2 were never started")
    ended = replace(half, stopping="n2: the controller disconnected before the start")
    assert ended.outcome(9.0).reason.endswith(" never started (n2: the controller disconnected before the start)")
    whole = half.with_end(end(1, "n2"), GRACE)
    assert whole.outcome(9.0).status is Status.DONE


def test_a_run_that_never_started_a_rank_is_not_done() -> None:
    assert finished(TWO).outcome(9.0).status is Status.REFUSED


def test_a_run_whose_nodes_do_not_report_the_ends_of_its_ranks_is_not_called_refused() -> None:
    """A rank in an uninterruptible system call has no end to report."""
    began = TWO.with_started(0).with_started(1)
    outcome = began.with_stopping("n1: its agent received a signal", GRACE).outcome(9.0)
    assert (outcome.status, outcome.reason) == (Status.FAILED, "n1: its agent received a signal")
    outcome = finished(began).outcome(9.0)
    assert (outcome.status, outcome.reason) == (Status.FAILED, "no node reported the end of 2 ranks")
    outcome = TWO.with_finished("n1", ("pid 7 survives SIGKILL",), GRACE).with_finished("n2", (), GRACE).outcome(9.0)
    assert outcome.status is Status.FAILED
    outcome = finished(began.with_end(end(0, "n1"), GRACE)).outcome(9.0)
    assert (outcome.status, outcome.reason) == (Status.FAILED, "no node reported the end of 1 rank")


def test_a_node_that_does_not_know_the_run_is_not_proven_clean() -> None:
    """Its files may have been removed while its ranks run."""
    aborted = TWO.with_finished("n1", (), GRACE).with_unknown("n2", GRACE).outcome(9.0)
    assert (aborted.status, aborted.unproven) == (Status.REFUSED, ("n2",))
    gone = TWO.with_unknown("n1", GRACE).with_unknown("n2", GRACE).outcome(9.0)
    assert (gone.status, gone.unproven) == (Status.FAILED, ("n1", "n2"))
    assert gone.reason == "none of its nodes knows it any more"


def test_a_victim_stops_nobody_until_its_node_does() -> None:
    lost = replace(end(0, "n1", code=1), symptom="lost the connection to another rank")
    state = TWO.with_end(lost, GRACE)
    assert state.stop is None
    states = (RankState(1, "T", None, None),)
    state = state.with_stopping("n1: rank 0 lost the connection to another rank", GRACE).with_states("n2", states)
    assert state.stop == StopAll("n1: rank 0 lost the connection to another rank", GRACE)
    outcome = finished(state.with_end(end(1, "n2", signal=9, stopped=True), GRACE)).outcome(9.0)
    assert (outcome.status, outcome.named) == (Status.FAILED, Named("n2", 1))
    assert outcome.first_failure == lost


LATE = HangFinding(
    HangKind.LATE, "rank 0 waits; rank 1 on n2 is in load", Confidence.HIGH, (1,), ("n2",), ("a line",), hint="look"
)


def test_a_hang_that_ends_the_run_is_its_reason() -> None:
    state = TWO.with_hang(LATE, GRACE, 5.0)
    assert state.stop == StopAll("hang: rank 0 waits; rank 1 on n2 is in load", GRACE)
    for rank, host in ((0, "n1"), (1, "n2")):
        state = state.with_end(end(rank, host, signal=15, at=6.0, stopped=True), GRACE)
    outcome = finished(state).outcome(9.0)
    assert (outcome.status, outcome.hang, outcome.named) == (Status.FAILED, LATE, Named("n2", 1))
    assert (outcome.reason, outcome.evidence, outcome.hint) == (f"hang: {LATE.text}", ("a line",), "look")


def test_ranks_that_all_end_well_after_all_did_not_hang() -> None:
    state = TWO.with_hang(LATE, GRACE, 5.0)
    for rank in range(2):
        state = state.with_end(end(rank, f"n{rank + 1}", code=0, at=6.0), GRACE)
    assert finished(state).outcome(9.0).status is Status.DONE


def test_a_rank_that_failed_before_the_hang_was_noticed_is_the_cause() -> None:
    state = TWO.with_end(end(1, "n2", code=1, at=4.0), GRACE).with_hang(LATE, GRACE, 5.0)
    outcome = finished(state).outcome(9.0)
    assert (outcome.hang, outcome.reason) == (None, "rank 1 on n2 exited with code 1")


def test_the_outcome_of_a_failure_has_its_causes_and_the_facts_of_hosts() -> None:
    waited = replace(end(0, "n1", code=1), symptom="timed out waiting for other ranks")
    state = TWO.with_end(waited, GRACE).with_states("n1", ()).with_states("n2", (RankState(1, "S", 9.0, None),))
    cut_off = StuckConnection(0, "10.0.0.2", 41000, 65536, 5, 40000)
    facts = (HostEvidence("n1", 5.0, 0.0, stuck=(cut_off,)), HostEvidence("n2", 5.0, 0.0, addresses=("10.0.0.2",)))
    outcome = finished(state.with_facts(facts[0]).with_facts(facts[1])).outcome(9.0)
    assert outcome.reason.startswith(
        "packets between n1 and n2 get no answer: a firewall or a route, n1 port 40000 to n2 port 41000; "
    )
    assert [each.kind for each in outcome.causes] == ["path-blocked", "rank-silent"]
    assert (outcome.named, outcome.hosts) == (None, facts)
    assert [each.why for each in outcome.rejected] == ["the effect of another failure on this rank"]
