"""Reports of nodes as events of the run."""

import asyncio
import math
from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from pylaunch import protocol
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.examination import RankView
from pylaunch.runs.connect.agent_link import AgentLink
from pylaunch.runs.connect.bounds import ConnectionEnded, Reconnected
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.events import RunEvent
from pylaunch.runs.follow.run_follower import RunFollower, time_of
from tests.unit.runs.messages import arrive

CLUSTER = Cluster(tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(("n1", "n2", "n3"))))
PLAN = plan_run(CLUSTER, JobSpec(("true",), Framework.COMMAND, "/tmp"), "7f3a9c01")


class Listener:
    """Keeps the events of a run; nodes that only report their start and end write nothing."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.phases: list[str] = []
        self.views: list[RankView] = []

    def __call__(self, event: RunEvent) -> None:
        match event:
            case Event(kind=EventKind.NOTICE, text=text):
                self.phases.append(text)
            case Event():
                self.events.append(event)
            case RankView():
                self.views.append(event)
            case _:
                raise AssertionError(event)


def heard(*messages: tuple[str, object]) -> Listener:
    """Return what a follower without links reports of these messages of nodes."""
    listener = Listener()

    async def hear() -> None:
        follower = RunFollower(PLAN, Fleet(PLAN, "0123"), listener, streams=[])
        for host, message in messages:
            await follower._on_message(host, message)

    asyncio.run(hear())
    return listener


def test_of_views_that_a_node_repeats_without_end_the_first_is_recorded() -> None:
    views = [("n1", protocol.RankView(0, "", 1.0, 0.0, pid, "S", 0.0, "")) for pid in range(1, 100)]
    listener = heard(*views, ("n2", protocol.RankView(1, "", 1.0, 0.0, 7, "S", 0.0, "")))
    assert [(view.rank, view.pid) for view in listener.views] == [(0, 1), (1, 7)]


def test_starts_that_a_node_reports_without_end_are_recorded_once() -> None:
    listener = heard(*(("n1", protocol.RankStarted(0, pid, 1.0)) for pid in range(2, 100)))
    assert [(event.kind, event.text) for event in listener.events] == [(EventKind.RANK_STARTED, "pid 2")]


END = protocol.RankEnd(1, "", 1, None, 100.0, stopped=False, last_lines=("ValueError: x",), error="ValueError: x")


@pytest.mark.parametrize(
    ("message", "time"),
    [
        (replace(END, raised_at=97.5), 97.5),
        (replace(END, raised_at=97.5, symptom="lost the connection to another rank"), 100.0),
        (replace(END, raised_at=0.0), 100.0),
        (replace(END, raised_at=1.0), 100.0),
        (replace(END, raised_at=101.0), 100.0),
        (protocol.RankEnd(None, "", 1, None, 100.0, stopped=False, raised_at=97.5), 100.0),
    ],
    ids=["own exception", "victim", "no exception", "long before", "after the end", "launcher"],
)
def test_a_rank_fails_when_it_writes_its_own_exception(message: protocol.RankEnd, time: float) -> None:
    assert time_of(message) == time


class Watched:
    """A follower without the lead, whose connections end only when a test ends them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, to_end: bool = True) -> None:
        monkeypatch.setattr(Fleet, "_begin_call", lambda *_: None)
        self.listener, self.fleet, self.sent = Listener(), Fleet(PLAN, "v"), list[object]()
        for name in PLAN.cluster.names:
            self.link(name)
        self.follower = RunFollower(PLAN, self.fleet, self.listener, streams=[], leads=False)
        reading = self.follower.follow() if to_end else self.follower.read(to_end=False)
        self.following = asyncio.ensure_future(cast("Coroutine[None, None, Outcome]", reading))

    def link(self, name: str) -> None:
        async def send(message: object) -> None:
            self.sent.append(message)

        link = SimpleNamespace(heard_at=math.inf, is_awaited=True, send=send, clock=ClockOffset(0.0, 0.0))
        self.fleet.links[name] = cast(AgentLink, link)

    async def hear(self, *messages: tuple[str, object]) -> None:
        arrive(self.fleet, *messages)
        for _ in range(20):
            await asyncio.sleep(0)


GONE = protocol.Finished([])
ENDED = [("n2", replace(END, time=5.0)), ("n2", protocol.Finished([]))]


def test_a_follower_without_the_lead_orders_nothing_when_a_rank_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> tuple[Watched, Outcome]:
        run = Watched(monkeypatch)
        await run.hear(*ENDED)
        assert not run.following.done()
        rest = [each for host in ("n1", "n3") for each in ((host, protocol.Stopping("rank 1", 6.0)), (host, GONE))]
        await run.hear(*rest)
        return run, await asyncio.wait_for(run.following, 60)

    run, outcome = asyncio.run(story())
    assert {*map(type, run.sent)} == {protocol.Follow, protocol.Ping}, "no Stop"
    assert not any(each.leads for each in run.sent if isinstance(each, protocol.Ping)), "no node relies on it"
    kinds = [event.kind for event in run.listener.events]
    assert kinds == [EventKind.RANK_ENDED, EventKind.STOP_ASKED, EventKind.STOP_ASKED, EventKind.ENDED]
    assert outcome.status is Status.FAILED


def test_a_follower_without_the_lead_awaits_a_node_out_of_reach_until_its_timeout_once_another_has_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        run = Watched(monkeypatch)
        await run.hear(("n1", ConnectionEnded("broken")), ("n3", ConnectionEnded("broken")))
        assert run.follower._give_up_at is None, "no node that answers has finished"
        await run.hear(*ENDED)
        loop = asyncio.get_running_loop()
        assert (run.follower._give_up_at or math.inf) - loop.time() <= PLAN.job.node_timeout.total_seconds()
        run.link("n1")
        await run.hear(("n1", Reconnected()))
        assert run.follower._give_up_at is None
        run.following.cancel()
        await asyncio.wait({run.following})

    asyncio.run(story())


def test_a_connection_that_ends_again_and_again_delays_past_output_until_the_timeout_of_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        run = Watched(monkeypatch, to_end=False)
        await run.hear(("n1", protocol.CaughtUp()), ("n3", protocol.CaughtUp()), ("n2", ConnectionEnded("broken")))
        run.link("n2")
        await run.hear(("n2", Reconnected()), ("n1", protocol.Skipped("0.out", 0, 1, "/0.out")))
        limits = [run.follower._give_up_at]
        await run.hear(("n2", protocol.Skipped("1.out", 0, 1, "/1.out")))
        limits.append(run.follower._give_up_at)
        assert [limit is None for limit in limits] == [False, True], "n1, which is not awaited, does not speak for n2"
        await run.hear(("n2", protocol.CaughtUp()))
        await asyncio.wait_for(run.following, 60)

    asyncio.run(story())
