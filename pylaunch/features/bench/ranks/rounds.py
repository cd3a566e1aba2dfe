"""Rounds of disjoint pairs: the circle method of round-robin tournaments. Pure; the ranks and the controller use it.

With n nodes (if n is odd, one more that does not exist), round k pairs node i with k - i modulo n - 1. Node n - 1 is
not in the circle and gets the node that k would pair with itself. No pair meets in two rounds, and all n - 1 rounds
together contain each pair once.
"""

from __future__ import annotations


def round_count(nodes: int) -> int:
    """Return the number of rounds that contain each pair of `nodes` once."""
    return nodes - 1 + nodes % 2


def partner(node: int, number: int, nodes: int) -> int | None:
    """Return the partner of `node` in round `number` of `nodes`; None if it has none in this round."""
    circle = round_count(nodes)
    if node == circle:  # The node in the centre: it meets the one with 2i = k.
        other = number * (circle + 1) // 2 % circle
    else:
        other = (number - node) % circle
        if other == node:
            other = circle
    return other if other < nodes else None


def pairs_of(number: int, nodes: int) -> list[tuple[int, int]]:
    """Return the disjoint pairs of round `number`, each with the lower node first."""
    found = []
    for node in range(nodes):
        other = partner(node, number, nodes)
        if other is not None and node < other:
            found.append((node, other))
    return found
