"""End of a run as a watcher sees it."""

from pylaunch.runs.existing.watch import HEARD, OVER, UNKNOWN, is_over

PATIENCE_S = 10.0


def test_the_run_is_over_when_every_node_reports_it_or_does_not_know_it() -> None:
    assert not is_over([OVER, OVER, ""], 0.0, PATIENCE_S), "the third node has not answered yet"
    assert not is_over([OVER, UNKNOWN, HEARD], 0.0, PATIENCE_S)
    assert is_over([OVER, UNKNOWN, UNKNOWN], 0.0, PATIENCE_S)


def test_a_node_out_of_reach_is_awaited_until_its_timeout() -> None:
    assert not is_over([OVER, OVER, 100.0], 109.0, PATIENCE_S)
    assert is_over([OVER, OVER, 100.0], 110.0, PATIENCE_S)
    assert not is_over([1.0, 1.0, 1.0], 1000.0, PATIENCE_S), "no node answers"
