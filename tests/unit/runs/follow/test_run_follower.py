"""Reports of nodes as events of the run."""

import asyncio
from dataclasses import replace

import pytest

from pylaunch import protocol
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.examination import RankView
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.events import RunEvent
from pylaunch.runs.follow.run_follower import RunFollower, time_of

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
