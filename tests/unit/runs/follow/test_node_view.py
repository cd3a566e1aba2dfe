"""End of a run as a watcher sees it."""

from pylaunch.runs.follow.node_view import NodeView

PATIENCE_S = 10.0
THREE = NodeView(frozenset({"n1", "n2", "n3"}))


def test_the_run_is_over_when_every_node_reports_it() -> None:
    two = THREE.with_over("n1").with_over("n2")
    assert not two.is_over(0.0, PATIENCE_S), "n3 has not answered yet"
    assert not two.with_heard("n3").is_over(0.0, PATIENCE_S)
    assert two.with_heard("n3").with_over("n3").is_over(0.0, PATIENCE_S)


def test_a_node_that_does_not_know_the_run_is_finished() -> None:
    assert THREE.with_unknown("n1").with_unknown("n2").with_over("n3").is_over(0.0, PATIENCE_S)
    assert not THREE.with_unknown("n1").with_over("n2").with_heard("n3").is_over(0.0, PATIENCE_S)


def test_a_node_out_of_reach_is_awaited_until_its_timeout() -> None:
    view = THREE.with_over("n1").with_over("n2").with_missed("n3", 100.0).with_missed("n3", 105.0)
    assert not view.is_over(109.0, PATIENCE_S)
    assert view.is_over(110.0, PATIENCE_S)
    assert not view.with_heard("n3").is_over(110.0, PATIENCE_S)


def test_a_run_is_not_over_while_no_node_answers() -> None:
    view = THREE.with_missed("n1", 0.0).with_missed("n2", 0.0).with_missed("n3", 0.0)
    assert not view.is_over(1000.0, PATIENCE_S)
    assert view.has_any_answer
    assert not THREE.has_any_answer
