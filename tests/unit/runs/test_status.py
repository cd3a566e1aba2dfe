"""Nodes of a run, in the order of its plan."""

import asyncio

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs import status
from pylaunch.runs.status import node_start_seconds

PLAN = plan_run(
    Cluster((Host("gpu10", "10.0.0.10"), Host("gpu2", "10.0.0.2"), Host("login", "10.0.0.1"))),
    JobSpec(("a",), Framework.COMMAND, "/"),
    "7f3a9c01",
)


def event(kind: EventKind, host: str | None, **seconds: float) -> Event:
    return Event(2.0, kind, host, seconds=seconds)


def test_the_phases_of_nodes_are_in_the_order_of_the_plan_whichever_node_reports_first() -> None:
    events = (
        event(EventKind.PREPARED, "login", prepare=0.1), event(EventKind.PREPARED, "gpu2", prepare=0.2),
        event(EventKind.PREPARED, "gpu10", prepare=0.3), event(EventKind.RELEASED, "gpu2", exec=0.01),
        event(EventKind.RELEASED, None, connect=0.5),
    )  # fmt: skip
    found = node_start_seconds(RunRecord(PLAN, "v", 1.0, events, None))
    assert list(found.items()) == [
        ("gpu10", {"prepare": 0.3}), ("gpu2", {"prepare": 0.2, "exec": 0.01}), ("login", {"prepare": 0.1}),
    ]  # fmt: skip


def test_a_node_that_has_not_reported_has_no_phases() -> None:
    events = (event(EventKind.PREPARED, "login", prepare=0.1),)
    assert node_start_seconds(RunRecord(PLAN, "v", 1.0, events, None)) == {"login": {"prepare": 0.1}}


def record(run: str) -> RunRecord:
    plan = plan_run(Cluster((Host("n1", "10.0.0.1"),)), JobSpec(("a",), Framework.COMMAND, "/"), run)
    return RunRecord(plan, "v", 1.0, (), None)


def test_a_run_whose_nodes_are_slow_to_answer_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    both_asked = asyncio.Barrier(2)

    async def answered(plan: RunPlan, *_: object) -> status.RunStatus:
        async with asyncio.timeout(60):
            await both_asked.wait()
        return status.RunStatus((status.NodeState("n1", plan.run),), None)

    monkeypatch.setattr(status, "with_fleet", answered)
    found = status.statuses([record("7f3a9c01"), record("7f3a9c02")])
    assert [each.nodes[0].phase for each in found] == ["7f3a9c01", "7f3a9c02"]
