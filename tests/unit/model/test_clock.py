import pytest

from pylaunch.model.clock import Exchange, measure


def test_the_quickest_exchange_is_believed() -> None:
    slow = Exchange(sent=100.0, node=190.9, received=101.0)
    quick = Exchange(sent=200.0, node=290.01, received=200.02)
    offset = measure([slow, quick])
    assert offset.seconds == pytest.approx(90.0)
    assert offset.uncertainty == pytest.approx(0.01)


def test_times_go_there_and_back() -> None:
    offset = measure([Exchange(sent=10.0, node=7.0, received=10.0)])
    assert offset.to_ours(7.5) == pytest.approx(10.5)
    assert offset.to_node(10.5) == pytest.approx(7.5)
