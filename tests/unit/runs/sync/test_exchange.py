"""Content that nodes pass on to each other, and where that is not worth it."""

from __future__ import annotations

import pytest

from pylaunch.runs.sync.exchange import LEAST_SAVED, SOURCES, shared_content

HALF = LEAST_SAVED // 2
EVERYTHING = frozenset({0, 1})
NOTHING: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("sizes", "missing"),
    [
        ((HALF, HALF - 1), {"n1": EVERYTHING, "n2": EVERYTHING}),  # One node would still get all from the controller.
        ((LEAST_SAVED, LEAST_SAVED), {"n1": EVERYTHING}),  # No other node to pass it on.
        ((LEAST_SAVED, LEAST_SAVED), {"n1": NOTHING, "n2": NOTHING}),
        ((LEAST_SAVED, 1), {"n1": NOTHING, "n2": frozenset({1})}),
    ],
)
def test_content_comes_from_the_controller_where_that_costs_less(
    sizes: tuple[int, ...], missing: dict[str, frozenset[int]]
) -> None:
    assert shared_content(sizes, missing) == ((), ())


def test_content_that_several_nodes_lack_is_sent_once_and_that_of_one_node_comes_from_another() -> None:
    assert shared_content((HALF, HALF), {"n1": EVERYTHING, "n2": EVERYTHING}) == ((0, 1), ("n1", "n2"))
    assert shared_content((LEAST_SAVED, 5), {"n1": frozenset({0}), "n2": NOTHING}) == ((0,), ("n1", "n2"))
    each_other = {"n1": frozenset({0}), "n2": frozenset({1})}
    assert shared_content((HALF, HALF), each_other) == ((0, 1), ("n1", "n2"))


def test_a_few_nodes_that_lack_nothing_are_enough_to_pass_it_on() -> None:
    missing = {f"n{each}": NOTHING for each in range(100)} | {"new": EVERYTHING}
    assert shared_content((HALF, HALF), missing)[1] == ("new", *(f"n{each}" for each in range(SOURCES)))
