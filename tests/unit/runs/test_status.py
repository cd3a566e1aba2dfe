"""States of runs, and how they are followed without the lead."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.run import RunRecord
from pylaunch.runs import attach, status
from pylaunch.runs.connect.agent_link import AgentLink, LinkError, RunUnknownError
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.follow.run_follower import RunFollower


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


def test_a_node_that_falls_silent_before_it_reports_its_end_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(*_: object) -> None:
        """Send nothing, close nothing."""

    async def connect(fleet: Fleet, *_: object) -> dict[str, LinkError]:
        hello = SimpleNamespace(phase="finished", running=[])
        link = SimpleNamespace(hello=hello, is_awaited=True, heard_at=0.0, send=nothing, close=nothing)
        fleet.links["n1"] = cast(AgentLink, link)
        return {}

    monkeypatch.setattr(Fleet, "connect", connect)
    monkeypatch.setattr(Fleet, "_begin_call", lambda *_: None)
    monkeypatch.setattr(status, "SILENT", 0.01)
    [found] = status.statuses([record("7f3a9c01")])
    assert (found.outcome, found.state) == (None, "not answering")


def test_a_node_that_has_lost_a_released_run_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller of the run is alive, so that the run is not settled."""
    monkeypatch.setattr(attach, "is_settled", lambda _: False)
    gone: list[str] = []

    async def connect(*_: object) -> dict[str, LinkError]:
        return {"n1": RunUnknownError("no run 7f3a9c01 here")}

    running = SimpleNamespace(hello=SimpleNamespace(phase="running"))
    fleet = cast(Fleet, SimpleNamespace(connect=connect, links={"n2": running}))
    follower = cast(RunFollower, SimpleNamespace(leads=False, nothing_there=gone.append))
    asking = attach.attach_all(fleet, record("7f3a9c01"), follower)
    assert (asyncio.run(asyncio.wait_for(asking, 20)), gone) == ({}, ["n1"])


def test_a_view_that_cannot_be_printed_ends_the_following() -> None:
    """`pylaunch status --watch RUN | head -1`, of a run that continues for days."""

    def look() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        asyncio.run(asyncio.wait_for(attach._watched(asyncio.Event().wait(), look), 20))
