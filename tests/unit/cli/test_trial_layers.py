"""Layers of `check --trial`."""

from pylaunch.checks.suite import Result
from pylaunch.cli.views.trial import layers
from pylaunch.model.diagnosis.finding import Finding, Severity

CHECKS = ("reach.host", "time.offset", "limits.files", "storage.room", "network.ports", "python_env.python")
SLOW = Finding("network.ports", Severity.FAIL, ("n1",), "no answer")
MANY = Finding("limits.files", Severity.FAIL, ("n1",), "too few files")
AHEAD = Finding("time.offset", Severity.WARN, ("n1",), "60 ms ahead")


def test_layers_are_in_the_order_of_a_start_and_end_with_the_first_broken_one() -> None:
    found = layers(Result(("n1",), CHECKS, (SLOW, MANY, AHEAD), 1.0))
    assert list(found.items()) == [("reach", []), ("storage", []), ("time", [AHEAD]), ("network", [SLOW])]


def test_all_layers_are_shown_where_no_check_failed() -> None:
    assert list(layers(Result(("n1",), CHECKS, (AHEAD,), 1.0))) == [
        "reach", "storage", "time", "network", "python_env", "limits",
    ]  # fmt: skip
