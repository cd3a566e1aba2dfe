from pylaunch.model.barrier import SETTLE_S, Barrier, Decision

THREE = Barrier(frozenset({"n1", "n2", "n3"}), deadline=60.0)


def test_it_releases_when_all_are_prepared_and_waits_until_then() -> None:
    two = THREE.with_prepared("n1").with_prepared("n2")
    assert (two.decide(now=1), two.with_prepared("n3").decide(now=1)) == (Decision.WAIT, Decision.RELEASE)


def test_a_refusal_waits_for_the_reasons_of_the_others_but_not_for_long() -> None:
    barrier = THREE.with_refused("n2", ("disk full",), now=1).with_prepared("n1")
    assert barrier.decide(now=1.1) is Decision.WAIT
    assert barrier.decide(now=1 + SETTLE_S) is Decision.ABORT
    assert (barrier.silent, barrier.is_settling) == (("n3",), True)
    assert barrier.with_refused("n1", ("a later one",), now=2.9).deadline == 1 + SETTLE_S


def test_a_refusal_shortly_before_the_deadline_does_not_prolong_it() -> None:
    barrier = THREE.with_refused("n2", ("disk full",), now=59).with_prepared("n1")
    assert barrier.decide(now=60) is Decision.ABORT
    assert (barrier.silent, barrier.is_settling) == (("n3",), False)


def test_it_aborts_at_the_deadline_and_lists_the_silent_nodes() -> None:
    barrier = THREE.with_prepared("n1")
    assert barrier.decide(now=59.9) is Decision.WAIT
    assert barrier.decide(now=60) is Decision.ABORT
    assert barrier.silent == ("n2", "n3")


def test_time_in_which_nobody_listened_does_not_count() -> None:
    paused = THREE.with_pause(30.0)
    assert (paused.decide(now=89.9), paused.decide(now=90)) == (Decision.WAIT, Decision.ABORT)


def test_a_node_that_fails_after_it_was_ready_aborts_at_once_when_all_have_answered() -> None:
    barrier = THREE.with_prepared("n1").with_prepared("n2").with_refused("n1", ("gone",), now=1).with_prepared("n3")
    assert barrier.decide(now=1) is Decision.ABORT
