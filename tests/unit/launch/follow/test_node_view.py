"""When somebody who watches has seen the end of a run."""

from __future__ import annotations

from pylaunch.launch.follow.node_view import NodeView

PATIENCE_S = 10.0
THREE = NodeView(frozenset({"n1", "n2", "n3"}))


def test_it_is_over_when_every_node_says_so() -> None:
    two = THREE.with_over("n1").with_over("n2")
    assert not two.is_over(0.0, PATIENCE_S), "n3 has not answered yet"
    assert not two.with_heard("n3").is_over(0.0, PATIENCE_S)
    assert two.with_heard("n3").with_over("n3").is_over(0.0, PATIENCE_S)


def test_a_node_that_has_nothing_of_the_run_is_done_with_it() -> None:
    assert THREE.with_unknown("n1").with_unknown("n2").with_over("n3").is_over(0.0, PATIENCE_S)
    assert not THREE.with_unknown("n1").with_over("n2").with_heard("n3").is_over(0.0, PATIENCE_S)


def test_a_node_that_is_missed_is_waited_for_as_long_as_its_run_would() -> None:
    sight = THREE.with_over("n1").with_over("n2").with_missed("n3", 100.0).with_missed("n3", 105.0)
    assert not sight.is_over(109.0, PATIENCE_S)
    assert sight.is_over(110.0, PATIENCE_S)
    assert not sight.with_heard("n3").is_over(110.0, PATIENCE_S)


def test_where_no_node_answers_nobody_knows() -> None:
    sight = THREE.with_missed("n1", 0.0).with_missed("n2", 0.0).with_missed("n3", 0.0)
    assert not sight.is_over(1000.0, PATIENCE_S)
    assert sight.has_any_answer
    assert not THREE.has_any_answer
