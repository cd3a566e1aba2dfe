"""Explanation of failed connections by as few hosts as possible."""

from __future__ import annotations

from itertools import permutations

from pylaunch.checks.hosts.network_matrix import Blame, Pair, blames, grouped


def pairs(count: int) -> set[Pair]:
    return set(permutations([f"n{number}" for number in range(1, count + 1)], 2))


def to(*targets: str, count: int = 4) -> set[Pair]:
    return {pair for pair in pairs(count) if pair[1] in targets}


def of(*sources: str, count: int = 4) -> set[Pair]:
    return {pair for pair in pairs(count) if pair[0] in sources}


def test_without_a_failure_no_host_is_blamed() -> None:
    assert blames(set(), pairs(4)) == ()


def test_a_host_that_no_other_host_reaches_is_blamed() -> None:
    assert blames(to("n2"), pairs(4)) == (Blame("n2", None),)


def test_a_host_that_reaches_no_other_host_is_blamed() -> None:
    assert blames(of("n3"), pairs(4)) == (Blame(None, "n3"),)


def test_a_host_that_is_cut_off_both_ways_is_blamed_for_both() -> None:
    assert set(blames(to("n2") | of("n2"), pairs(4))) == {Blame("n2", None), Blame(None, "n2")}


def test_two_closed_hosts_of_three_do_not_blame_the_third() -> None:
    assert set(blames(to("n2", "n3", count=3), pairs(3))) == {Blame("n2", None), Blame("n3", None)}


def test_when_all_hosts_are_closed_each_is_blamed_as_the_target() -> None:
    assert set(blames(pairs(3), pairs(3))) == {Blame("n1", None), Blame("n2", None), Blame("n3", None)}


def test_one_failed_pair_among_many_is_reported_as_that_pair() -> None:
    assert blames({("n1", "n4")}, pairs(4)) == (Blame("n4", "n1"),)


def test_a_failed_pair_beside_a_closed_host_is_reported_too() -> None:
    assert blames(to("n2") | {("n1", "n4")}, pairs(4)) == (Blame("n2", None), Blame("n4", "n1"))


def test_with_two_hosts_the_pair_is_blamed() -> None:
    assert blames({("n1", "n2")}, pairs(2)) == (Blame("n2", "n1"),)


def test_a_host_with_few_measurements_is_not_blamed() -> None:
    measured = pairs(4) - {("n1", "n2"), ("n3", "n2")}
    assert blames({("n4", "n2")}, measured) == (Blame("n2", "n4"),)


def test_kinds_of_failure_are_distinguished_and_list_their_ports() -> None:
    ends = {("n1", "n2"): {"rendezvous": "silent", "ephemeral 0": "ok"}, ("n2", "n1"): {"rendezvous": "ok"}}
    assert grouped(ends) == {
        "silent": {("n1", "n2"): {"rendezvous"}},
        "ok": {("n1", "n2"): {"ephemeral 0"}, ("n2", "n1"): {"rendezvous"}},
    }
