"""Peers that each node tries to connect to before a release."""

from pylaunch.runs.prepare.peer_connections import ALL_PAIRS, targets


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def test_a_few_nodes_try_every_pair_in_both_directions() -> None:
    assert targets(names(3)) == {"n0": ("n1", "n2"), "n1": ("n0", "n2"), "n2": ("n0", "n1")}
    assert targets(["n0"]) == {"n0": ()}


def test_many_nodes_try_their_ring_both_ways_and_the_first_node() -> None:
    count = ALL_PAIRS + 1
    found = targets(names(count))
    assert found["n7"] == ("n0", "n6", "n8")
    assert found["n0"] == (f"n{count - 1}", "n1")
    assert all("n0" in peers for name, peers in found.items() if name != "n0")
    assert max(map(len, found.values())) == 3
