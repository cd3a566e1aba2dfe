"""Logs of a run that its nodes do not have."""

from __future__ import annotations

import pytest

from pylaunch.errors import ClusterNotReadyError
from pylaunch.launch.connect.agent_link import LinkError, RunUnknownError
from pylaunch.launch.existing.logs import _raise_if_unknown
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import RunRecord

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
RECORD = RunRecord(plan_run(CLUSTER, JobSpec(("a",), Framework.COMMAND, "/"), "7f3a9c01"), "v", 1.0, (), None)
UNKNOWN = RunUnknownError("no run 7f3a9c01 on this host")


def test_nodes_that_answer_and_do_not_know_the_run_are_not_called_unreachable() -> None:
    with pytest.raises(ClusterNotReadyError, match=r"run 7f3a9c01 has no logs: it is not known on n\[1-2\]"):
        _raise_if_unknown(RECORD, {"n1": UNKNOWN, "n2": UNKNOWN}, ("n1", "n2"))


def test_a_node_that_cannot_be_reached_may_have_the_logs() -> None:
    _raise_if_unknown(RECORD, {"n1": UNKNOWN, "n2": LinkError("no route")}, ("n1", "n2"))
    _raise_if_unknown(RECORD, {"n1": UNKNOWN}, ("n1", "n2"))
