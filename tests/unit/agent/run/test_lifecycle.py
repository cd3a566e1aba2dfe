"""Lifecycle of a run on a node, from values alone."""

from dataclasses import replace

from pylaunch.agent.run import lifecycle
from pylaunch.agent.run.lifecycle import (
    EXAMINE_S,
    FAILING_S,
    HOLD_S,
    LOOK_S,
    SETTLE_S,
    Announce,
    ExamineRanks,
    KillEverything,
    Life,
    Terminate,
)

GRACE_S = 5.0
LONG_AGO = -1000.0
EXAMINE = ExamineRanks()


def running(*ranks: int) -> Life:
    return lifecycle.released(Life(frozenset(ranks), False, GRACE_S), LONG_AGO)


def launched(*ranks: int) -> Life:
    life = lifecycle.released(Life(frozenset(ranks), True, GRACE_S), LONG_AGO)
    for rank in ranks:
        life, _ = lifecycle.rank_started(life, rank)
    return life


def test_a_failed_rank_has_the_others_examined_then_terminated_and_sets_the_deadline() -> None:
    life, actions = lifecycle.ended(running(0, 1, 2), 1, "rank 1 died", 10.0)
    assert actions == [Announce("rank 1 died"), EXAMINE]
    assert lifecycle.next_deadline(life) == 10.0 + EXAMINE_S
    life, actions = lifecycle.examined(life, 10.0 + SETTLE_S)
    assert actions == [Terminate(frozenset({0, 2}))]
    assert lifecycle.next_deadline(life) == 15.0
    assert lifecycle.examined(life, 11.0) == (life, [])


def test_ranks_that_fail_in_the_same_moment_as_the_first_end_on_their_own() -> None:
    life, _ = lifecycle.ended(running(0, 1, 2), 1, "rank 1 died", 10.0)
    life, actions = lifecycle.examined(life, 10.01)
    assert (actions, lifecycle.next_deadline(life)) == ([], 10.0 + SETTLE_S)
    life, actions = lifecycle.ended(life, 0, "rank 0 died", 10.1)
    assert (actions, lifecycle.tick(life, 10.2)) == ([], (life, []))
    assert lifecycle.tick(life, 10.0 + SETTLE_S)[1] == [Terminate(frozenset({2}))]


def test_ranks_of_a_young_run_have_longer_to_fail_on_their_own() -> None:
    young = lifecycle.released(Life(frozenset((0, 1)), False, GRACE_S), 5.0)
    life, _ = lifecycle.ended(young, 1, "rank 1 died", 10.0)
    life, actions = lifecycle.examined(life, 10.01)
    assert (actions, lifecycle.next_deadline(life)) == ([], 11.0)
    life, actions = lifecycle.tick(life, 11.0)
    assert (actions, life.kill_at) == ([Terminate(frozenset({0}))], 11.0 - SETTLE_S + GRACE_S)


def test_a_rank_that_has_written_its_exception_is_awaited_for_a_while() -> None:
    life, _ = lifecycle.ended(running(0, 1), 1, "rank 1 died", 10.0)
    life, _ = lifecycle.examined(life, 10.01)
    life, actions = lifecycle.tick(life, 10.0 + SETTLE_S, is_failing=True)
    assert (actions, lifecycle.next_deadline(life)) == ([], 10.0 + SETTLE_S + LOOK_S)
    late = 10.0 + SETTLE_S + FAILING_S
    assert lifecycle.tick(life, late, is_failing=True)[1] == [Terminate(frozenset({0}))]
    assert lifecycle.tick(life, late - 1.0)[1] == [Terminate(frozenset({0}))]
    assert lifecycle.stop(life, "stop", 11.0, GRACE_S, by_hand=True)[1][1:] == [Terminate(frozenset({0}))]


def test_a_person_who_requests_the_stop_does_not_wait_for_ranks_to_settle() -> None:
    life, _ = lifecycle.examined(lifecycle.stop(running(0), "rank 1 died", 10.0, GRACE_S)[0], 10.01)
    _, actions = lifecycle.stop(life, "stop", 10.02, GRACE_S, by_hand=True)
    assert actions == [Announce("stop", by_hand=True), Terminate(frozenset({0}))]


def test_views_that_do_not_arrive_delay_a_stop_by_their_time_and_no_longer() -> None:
    life, _ = lifecycle.ended(replace(running(0, 1), grace_s=0.0), 1, "rank 1 died", 10.0)
    assert lifecycle.tick(life, 10.2) == (life, [])
    life, actions = lifecycle.tick(life, 10.0 + EXAMINE_S)
    assert actions == [Terminate(frozenset({0})), KillEverything()]


def test_a_later_stop_shortens_the_grace_and_never_extends_it() -> None:
    life, _ = lifecycle.stop(running(0), "stop", 10.0, 60.0)
    shorter, actions = lifecycle.stop(life, "now", 11.0, 0.0)
    assert (shorter.kill_at, actions) == (11.0, [])
    assert lifecycle.stop(shorter, "slowly", 12.0, 60.0)[0].kill_at == 11.0


def test_kill_is_sent_at_the_deadline_and_repeated_until_nothing_runs() -> None:
    life, _ = lifecycle.examined(lifecycle.stop(running(0), "stop", 10.0, GRACE_S)[0], 10.5)
    assert lifecycle.tick(life, 14.9)[1] == []
    assert lifecycle.tick(life, 15.0)[1] == [KillEverything()]
    assert lifecycle.tick(life, 16.0)[1] == [KillEverything()]
    ended, _ = lifecycle.ended(life, 0, "killed", 16.0)
    assert lifecycle.tick(ended, 17.0)[1] == []


def test_a_rank_that_survives_kill_is_given_up() -> None:
    life, _ = lifecycle.stop(running(0), "stop", 10.0, GRACE_S)
    assert not life.has_given_up(15.0 + lifecycle.KILL_S)
    assert life.has_given_up(15.1 + lifecycle.KILL_S)


def test_the_launcher_is_terminated_when_its_last_rank_is_gone() -> None:
    life, actions = lifecycle.stop(launched(0, 1), "stop", 10.0, GRACE_S)
    assert Terminate(frozenset({None})) not in actions
    life, actions = lifecycle.ended(life, 0, "terminated", 11.0)
    assert actions == []
    life, actions = lifecycle.ended(life, 1, "terminated", 11.0)
    assert actions == [Terminate(frozenset({None}))]
    assert not life.is_over
    life, actions = lifecycle.ended(life, None, "launcher failed", 12.0)
    assert (actions, life.is_over) == ([], True)


def test_a_launcher_whose_ranks_succeeded_is_left_to_exit_on_its_own() -> None:
    life, actions = lifecycle.ended(launched(0), 0, None, 1.0)
    assert (actions, life.is_over) == ([], False)
    assert lifecycle.ended(life, None, None, 300.0)[0].is_over


def test_ranks_that_a_launcher_left_behind_are_stopped() -> None:
    life, actions = lifecycle.ended(launched(0, 1), None, None, 1.0)
    assert actions == [Announce("the launcher ended before its ranks"), EXAMINE]
    life, actions = lifecycle.examined(life, 1.5)
    assert actions == [Terminate(frozenset({0, 1}))]
    assert not life.is_over


def test_a_rank_that_starts_while_the_node_stops_is_terminated() -> None:
    life, _ = lifecycle.stop(launched(), "stop", 1.0, GRACE_S)
    assert lifecycle.rank_started(life, 3)[1] == [Terminate(frozenset({3}))]


def test_a_rank_that_lost_another_gives_the_others_time_to_show_how_they_end() -> None:
    life, actions = lifecycle.ended(running(0, 1), 0, "rank 0 lost a peer", 10.0, is_victim=True)
    assert (actions, life.is_over, lifecycle.next_deadline(life)) == ([EXAMINE], False, 10.0 + EXAMINE_S)
    life, actions = lifecycle.examined(life, 10.1)
    assert (actions, lifecycle.next_deadline(life)) == ([], 10.0 + HOLD_S)
    assert lifecycle.tick(life, 10.0 + HOLD_S - 0.1) == (life, [])
    over, actions = lifecycle.tick(life, 10.0 + HOLD_S)
    assert actions == [Announce("rank 0 lost a peer"), Terminate(frozenset({1}))]
    assert lifecycle.next_deadline(over) == 10.0 + HOLD_S + GRACE_S


def test_a_cause_or_an_order_ends_that_time() -> None:
    life, _ = lifecycle.ended(running(0, 1, 2), 0, "rank 0 lost a peer", 10.0, is_victim=True)
    _, actions = lifecycle.ended(life, 1, "rank 1 was killed by SIGKILL", 10.5)
    assert actions == [Announce("rank 1 was killed by SIGKILL")]
    _, actions = lifecycle.ended(lifecycle.examined(life, 10.4)[0], 1, "rank 1 was killed by SIGKILL", 10.5)
    assert actions == [Announce("rank 1 was killed by SIGKILL"), Terminate(frozenset({2}))]
    _, actions = lifecycle.stop(life, "by ada", 10.5, GRACE_S, by_hand=True)
    assert actions == [Announce("by ada", by_hand=True), Terminate(frozenset({1, 2}))]
