"""Explanation of failed connections by as few hosts as possible."""

from itertools import permutations

import pytest

from pylaunch.checks.hosts.network_matrix import Blame, Pair, blames, failures
from pylaunch.checks.mesh import End


def pairs(count: int) -> set[Pair]:
    return set(permutations([f"n{number}" for number in range(1, count + 1)], 2))


def to(*targets: str, count: int = 4) -> set[Pair]:
    return {pair for pair in pairs(count) if pair[1] in targets}


def of(*sources: str, count: int = 4) -> set[Pair]:
    return {pair for pair in pairs(count) if pair[0] in sources}


@pytest.mark.parametrize(
    ("failed", "blamed"),
    [
        (set(), ()),
        (to("n2"), (Blame("n2", None),)),
        (of("n3"), (Blame(None, "n3"),)),
        (to("n2") | of("n2"), (Blame("n2", None), Blame(None, "n2"))),
        ({("n1", "n4")}, (Blame("n4", "n1"),)),
        (to("n2") | {("n1", "n4")}, (Blame("n2", None), Blame("n4", "n1"))),
    ],
    ids=["nothing", "no host reaches it", "it reaches no host", "both ways", "one pair", "a pair beside a closed host"],
)
def test_failures_are_explained_by_a_host_where_all_its_connections_fail(
    failed: set[Pair], blamed: tuple[Blame, ...]
) -> None:
    found = blames(failed, pairs(4))
    assert (set(found), len(found)) == (set(blamed), len(blamed))


def test_hosts_that_are_closed_do_not_blame_the_others() -> None:
    assert set(blames(to("n2", "n3", count=3), pairs(3))) == {Blame("n2", None), Blame("n3", None)}
    assert set(blames(pairs(3), pairs(3))) == {Blame("n1", None), Blame("n2", None), Blame("n3", None)}
    assert blames({("n1", "n2")}, pairs(2)) == (Blame("n2", "n1"),), "of two hosts, neither is at fault alone"


def test_kinds_of_failure_are_distinguished_and_list_their_ports() -> None:
    silent, ok = End(end="silent"), End(end="ok")
    ends = {
        ("n1", "n2"): {"rendezvous": silent, "ephemeral": ok},
        ("n2", "n1"): {"rendezvous": ok},
        ("n2", "n3"): {"rendezvous": silent, "ephemeral": silent},
    }
    assert failures(ends) == {
        ("silent", frozenset({"rendezvous"})): {("n1", "n2")},
        ("silent", frozenset({"rendezvous", "ephemeral"})): {("n2", "n3")},
    }
