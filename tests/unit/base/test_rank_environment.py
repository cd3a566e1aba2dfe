"""Layers of a rank's environment and their order."""

from pylaunch.base.rank_environment import JOB, Layer, compose, composed_values


def test_a_later_layer_wins_in_whatever_order_the_layers_are_given() -> None:
    layers = {Layer.FLAGS: {"A": "3", "B": "3"}, Layer.NODE: {"A": "1", "C": "1"}, Layer.INVENTORY: {"A": "2"}}
    assert composed_values(layers) == {"A": "3", "B": "3", "C": "1"}
    assert compose(layers)["A"].layer is Layer.FLAGS
    assert composed_values(dict(reversed(layers.items()))) == composed_values(layers)


def test_no_layer_of_a_node_is_between_those_that_the_controller_sends_merged() -> None:
    order = list(Layer)
    merged = order[order.index(Layer.DEFAULTS) : order.index(JOB) + 1]
    assert merged == [Layer.DEFAULTS, Layer.FRAMEWORK, Layer.INVENTORY, Layer.FLAGS]
