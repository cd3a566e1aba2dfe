"""A watcher: a follower that orders nothing."""

import asyncio
import math
import threading
from collections.abc import Iterable
from typing import ClassVar, cast

import pytest

from pylaunch import protocol
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs import watch
from pylaunch.runs.connect.agent_link import AgentLink, RunUnknownError
from pylaunch.runs.connect.bounds import ConnectionEnded, Reconnected
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.events import RunEvent
from pylaunch.runs.follow.run_follower import RunFollower
from pylaunch.transport.connections import LocalConnector
from pylaunch.transport.interrupts import Interrupter
from pylaunch.transport.process import Child
from tests.unit.runs.follow.test_run_follower import Listener
from tests.unit.runs.messages import arrive

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
PLAN = plan_run(CLUSTER, JobSpec(("a",), Framework.COMMAND, "/"), "7f3a9c01")
HELLO = protocol.Hello(protocol.PROTOCOL, 7, "running", [])
ENDED = [("n2", protocol.RankEnd(1, "", 1, None, 5.0, stopped=False)), ("n2", protocol.Finished([], [], 7.0))]


class Sent:
    """Keeps what a node is sent."""

    def __init__(self) -> None:
        self.messages: list[object] = []

    async def send(self, line: bytes) -> None:
        self.messages.append(protocol.decode(line))


class Watched:
    """A run that is watched, without connections that could end on their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Fleet, "_begin_call", lambda *_: None)
        self.listener, self.sent = Listener(), Sent()
        self.fleet = Fleet(PLAN, "v")
        for host in CLUSTER.hosts:
            self.link(host)
        self.follower = RunFollower(PLAN, self.fleet, self.listener, streams=[])
        self.watching = asyncio.ensure_future(self.follower.watch([]))

    def link(self, host: Host) -> None:
        child = cast(Child, self.sent)
        self.fleet.links[host.name] = AgentLink(LocalConnector(host), child, HELLO, ClockOffset(0.0, 0.0))

    async def hear(self, *messages: tuple[str, object]) -> None:
        arrive(self.fleet, *messages)
        for _ in range(20):
            await asyncio.sleep(0)


def test_a_watcher_orders_nothing_when_a_rank_fails_and_sees_the_run_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> Watched:
        run = Watched(monkeypatch)
        await run.hear(*ENDED)
        assert not run.watching.done()
        await run.hear(("n1", protocol.Stopping("rank 1", 6.0)), ("n1", protocol.Finished([], [], 7.0)))
        await asyncio.wait_for(run.watching, 60)
        return run

    run = asyncio.run(story())
    assert {type(message) for message in run.sent.messages} == {protocol.Follow}, "no Ping, no Stop, no Examine"
    kinds = [event.kind for event in run.listener.events]
    assert kinds == [EventKind.RANK_ENDED, EventKind.STOP_ASKED]


def test_a_node_out_of_reach_is_awaited_until_its_timeout_once_another_has_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        run = Watched(monkeypatch)
        lost = ("n1", ConnectionEnded("broken"))
        await run.hear(lost)
        assert run.follower._give_up_at is None, "no node that answers has finished"
        await run.hear(*ENDED)
        loop = asyncio.get_running_loop()
        assert (run.follower._give_up_at or math.inf) - loop.time() <= PLAN.job.node_timeout.total_seconds()
        run.link(CLUSTER["n1"])
        await run.hear(("n1", Reconnected()))
        assert run.follower._give_up_at is None
        run.watching.cancel()

    asyncio.run(story())


def test_a_node_that_has_lost_a_released_run_keeps_no_watcher_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files were removed, for example; the controller of the run is alive, so that the run is not settled."""
    settled: list[bool] = []
    record = RunRecord(PLAN, "v", 1.0, (), None)

    async def connect(fleet: Fleet, names: Iterable[str], verb: str, **_: object) -> dict[str, Exception]:
        child = cast(Child, Sent())
        fleet.links["n2"] = AgentLink(LocalConnector(CLUSTER["n2"]), child, HELLO, ClockOffset(0.0, 0.0))
        arrive(fleet, *ENDED)
        settled.append(False)
        return {"n1": RunUnknownError("no run 7f3a9c01 here")}

    class Quiet:
        progress_every_s = 0.0

        def show(self, event: object) -> None:
            settled.append(True)

        def look(self) -> None:
            pass

    monkeypatch.setattr(Fleet, "connect", connect)
    assert watch.watch(record, Quiet(), lambda: settled[-1], Interrupter())
    assert settled.count(False) == 1, "nobody asks again"


def test_a_glimpse_waits_for_no_host_that_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead host refuses a connection after some ten seconds, and a glimpse takes three."""
    record, interrupter = RunRecord(PLAN, "v", 1.0, (), None), Interrupter()

    async def connect(fleet: Fleet, names: Iterable[str], verb: str, **_: object) -> dict[str, Exception]:
        if "n1" in names:
            await asyncio.Event().wait()
        child = cast(Child, Sent())
        fleet.links["n2"] = AgentLink(LocalConnector(CLUSTER["n2"]), child, HELLO, ClockOffset(0.0, 0.0))
        arrive(fleet, ("n2", protocol.RankStarted(1, 7, 1.0)))
        return {}

    class Glimpse:
        progress_every_s = 0.0
        seen: ClassVar[list[RunEvent]] = []

        def show(self, event: RunEvent) -> None:
            self.seen.append(event)

        def look(self) -> None:
            interrupter.interrupt("enough")

    monkeypatch.setattr(Fleet, "connect", connect)
    watch.glimpse(record, ["n2"], Glimpse(), interrupter)
    kinds = [event.kind for event in Glimpse.seen if isinstance(event, Event)]
    assert kinds == [EventKind.ATTACHED, EventKind.RANK_STARTED]


def test_a_view_that_cannot_be_printed_ends_the_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pylaunch status --watch RUN | head -1`, of a run that continues for days."""
    record = RunRecord(PLAN, "v", 1.0, (), None)

    async def connect(fleet: Fleet, names: Iterable[str], verb: str, **_: object) -> dict[str, Exception]:
        for host in CLUSTER.hosts:
            link = AgentLink(LocalConnector(host), cast(Child, Sent()), HELLO, ClockOffset(0.0, 0.0))
            fleet.links[host.name] = link
        return {}

    class WithoutReader:
        progress_every_s = 0.0

        def show(self, event: RunEvent) -> None:
            pass

        def look(self) -> None:
            raise BrokenPipeError

    interrupter = Interrupter()
    timer = threading.Timer(20.0, interrupter.interrupt, ("nobody looks any more",))
    monkeypatch.setattr(Fleet, "connect", connect)
    timer.start()
    try:
        with pytest.raises(BrokenPipeError):
            watch.watch(record, WithoutReader(), lambda: False, interrupter)
    finally:
        timer.cancel()
