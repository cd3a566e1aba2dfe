"""A matrix of connections is explained by as few hosts as possible."""

from __future__ import annotations

from itertools import permutations

from pylaunch.preflight.matrix import Blame, Pair, blames, grouped


def pairs(count: int) -> set[Pair]:
    return set(permutations([f"n{number}" for number in range(1, count + 1)], 2))


def to(*targets: str, count: int = 4) -> set[Pair]:
    return {pair for pair in pairs(count) if pair[1] in targets}


def of(*sources: str, count: int = 4) -> set[Pair]:
    return {pair for pair in pairs(count) if pair[0] in sources}


def test_nothing_failed_and_nobody_is_to_blame() -> None:
    assert blames(set(), pairs(4)) == ()


def test_who_nobody_gets_through_to_is_blamed() -> None:
    assert blames(to("n2"), pairs(4)) == (Blame("n2", None),)


def test_who_gets_through_to_nobody_is_blamed() -> None:
    assert blames(of("n3"), pairs(4)) == (Blame(None, "n3"),)


def test_a_host_that_is_cut_off_both_ways_is_blamed_for_both() -> None:
    assert set(blames(to("n2") | of("n2"), pairs(4))) == {Blame("n2", None), Blame(None, "n2")}


def test_two_closed_hosts_of_three_do_not_make_the_third_look_guilty() -> None:
    assert set(blames(to("n2", "n3", count=3), pairs(3))) == {Blame("n2", None), Blame("n3", None)}


def test_when_all_are_closed_each_is_named_as_the_one_that_listens() -> None:
    assert set(blames(pairs(3), pairs(3))) == {Blame("n1", None), Blame("n2", None), Blame("n3", None)}


def test_one_pair_among_many_is_told_as_that_pair() -> None:
    assert blames({("n1", "n4")}, pairs(4)) == (Blame("n4", "n1"),)


def test_a_pair_beside_a_closed_host_is_told_too() -> None:
    assert blames(to("n2") | {("n1", "n4")}, pairs(4)) == (Blame("n2", None), Blame("n4", "n1"))


def test_of_two_hosts_alone_nobody_can_say_which_one_it_is() -> None:
    assert blames({("n1", "n2")}, pairs(2)) == (Blame("n2", "n1"),)


def test_a_host_that_was_hardly_measured_is_not_blamed() -> None:
    measured = pairs(4) - {("n1", "n2"), ("n3", "n2")}
    assert blames({("n4", "n2")}, measured) == (Blame("n2", "n4"),)


def test_ways_of_failing_are_told_apart_with_the_ports_they_are_on() -> None:
    ends = {("n1", "n2"): {"rendezvous": "silent", "ephemeral 0": "ok"}, ("n2", "n1"): {"rendezvous": "ok"}}
    assert grouped(ends) == {
        "silent": {("n1", "n2"): {"rendezvous"}},
        "ok": {("n1", "n2"): {"ephemeral 0"}, ("n2", "n1"): {"rendezvous"}},
    }
