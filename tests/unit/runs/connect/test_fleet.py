import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from pylaunch import protocol
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.connect import fleet as fleet_module
from pylaunch.runs.connect.agent_link import AgentLink, LinkError
from pylaunch.runs.connect.bounds import ConnectionEnded, Interrupted, Lost, NodeSilent
from pylaunch.runs.connect.fleet import LEAST_SHARE, LEAST_SIZE, MOST_BYTES, Fleet, Inbox, Question
from pylaunch.runs.events import clock_now
from tests.unit.runs.messages import arrive, left

PLAN = plan_run(Cluster((Host("n1", "10.0.0.1"),)), JobSpec(("true",), Framework.COMMAND, "/"), "7f3a9c01")


class FloodingLink:
    """The connection to a node that always has another message, of `size` bytes; far more than may wait."""

    requested: frozenset[str] = frozenset()

    def __init__(self, size: int) -> None:
        self.sent = 0
        self._size = size

    async def messages(self) -> AsyncIterator[tuple[object, int]]:
        while self.sent * self._size < 20 * MOST_BYTES:
            self.sent += 1
            yield protocol.CaughtUp(), self._size

    async def why_it_ended(self) -> str:
        return "it has sent everything"

    async def close(self, within_s: float) -> None:
        pass


@pytest.mark.parametrize("size", [1 << 12, 1 << 22])
def test_a_node_that_floods_during_other_work_waits(size: int) -> None:
    """The work may take minutes, as an installation does."""
    link = FloodingLink(size)

    async def work() -> int:
        before = -1
        while before != link.sent:
            before = link.sent
            for _ in range(10):
                await asyncio.sleep(0)
        return link.sent

    async def story() -> None:
        fleet = Fleet(PLAN, "0123")
        fleet._listen("n1", cast(AgentLink, link))
        sent = await fleet.unless_interrupted(work())
        assert sent * max(size, LEAST_SIZE) < MOST_BYTES + max(size, LEAST_SIZE)
        for _ in range(2 * sent):
            assert await fleet.inbox.hear() == ("n1", protocol.CaughtUp()), "nothing is dropped"
        await fleet.close()

    asyncio.run(story())


def test_no_time_of_a_node_is_in_the_future_or_before_the_preparation() -> None:
    """Its clock was set after the connection measured it: nothing happens later than it is reported."""
    fleet = Fleet(PLAN, "0123")
    fleet.links["n1"] = cast(AgentLink, SimpleNamespace(clock=ClockOffset(2.0, 0.001)))
    now = clock_now()
    assert fleet.our_time("n1", now - 8.0) == now - 10.0
    asyncio.run(fleet.connect([], "open"))
    assert now <= fleet.our_time("n1", now - 3600.0) <= clock_now(), "nor before the nodes were prepared"
    assert now <= fleet.our_time("n1", now + 3600.0) <= clock_now()


def test_a_node_is_suspected_before_it_is_lost_and_only_while_the_controller_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: Iterator[float] = iter(())
    monkeypatch.setattr(fleet_module, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    monkeypatch.setattr(fleet_module, "LOOK_S", 0.0)

    async def nothing(*_: object) -> None:
        """Send nothing, close nothing."""

    monkeypatch.setattr(Fleet, "_begin_call", lambda *_: None)

    async def story(*, leads: bool) -> list[tuple[str, object]]:
        fleet = Fleet(PLAN, "0123")
        for name, is_awaited in (("n1", True), ("n2", False)):
            link = SimpleNamespace(
                heard_at=101.0, is_awaited=is_awaited, abandon=lambda: None, send=nothing, close=nothing
            )
            fleet.links[name] = cast(AgentLink, link)
        fleet.keep_watch(fleet.links, 10.0, leads=leads)
        heard = [await fleet.inbox.hear() for _ in range(7)]
        await fleet.close()
        return heard

    for leads, end in ((True, Lost), (False, ConnectionEnded)):
        looks = itertools.chain((100.0, 101.0, 102.0), itertools.count(3702.0))  # It was stopped for an hour.
        heard = asyncio.run(story(leads=leads))
        assert heard[:-1] == [("n1", NodeSilent(seconds)) for seconds in (4.0, 5.0, 6.0, 7.0, 8.0, 9.0)]
        assert heard[-1] == ("n1", end("no heartbeat for 10 s"))


def test_a_node_that_is_being_called_is_not_called_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection ends while a second one is being opened, because no heartbeat had arrived."""
    calls = []

    async def story() -> None:
        answers = asyncio.Event()

        async def opens(*_: object) -> None:
            calls.append("n1")
            await answers.wait()
            raise LinkError("no route", is_final=True)

        monkeypatch.setattr(fleet_module, "open_link", opens)
        fleet = Fleet(PLAN, "0123")
        fleet.links["n1"] = cast(AgentLink, SimpleNamespace(heard_at=0.0, is_awaited=True))
        fleet.keep_watch(fleet.links, 10.0, leads=True)
        fleet.reconnect("n1")
        fleet.reconnect("n1")
        for _ in range(9):
            await asyncio.sleep(0)
        answers.set()
        assert await fleet.inbox.hear() == ("n1", Lost("no route"))
        await fleet.close()

    asyncio.run(story())
    assert calls == ["n1"]


@pytest.mark.parametrize("hosts", [1, 16, 1000])
@pytest.mark.parametrize("size", [1, 1 << 16, 4 << 20])
def test_a_host_that_floods_waits_once_its_share_waits_and_does_not_delay_another(hosts: int, size: int) -> None:
    async def flood(inbox: Inbox) -> None:
        for number in range(10_000):
            inbox.put("n1", number, size)
            await inbox.room("n1")

    async def story() -> None:
        inbox, counted = Inbox(hosts), max(size, LEAST_SIZE)
        flooding = asyncio.ensure_future(flood(inbox))
        for _ in range(2000):
            await asyncio.sleep(0)
        share = max(LEAST_SHARE, MOST_BYTES // hosts)
        assert len(inbox._messages) == -(-share // counted), "an honest node may use the whole share"
        inbox.put("n2", "honest", 100)
        await asyncio.wait_for(inbox.room("n2"), 60)
        for number in range(-(-share // counted)):
            assert await inbox.hear() == ("n1", number), "nothing is lost"
        assert await inbox.hear() == ("n2", "honest")
        flooding.cancel()

    asyncio.run(story())


class Answering:
    """A link whose node answers each message with these."""

    def __init__(self, fleet: Fleet, host: str, *answers: object) -> None:
        self._fleet, self._host, self._answers = fleet, host, answers

    async def send(self, message: object) -> None:
        arrive(self._fleet, *((self._host, each) for each in self._answers))


def test_replies_reach_the_question_and_all_else_the_subscriber() -> None:
    async def story() -> None:
        fleet = Fleet(PLAN, "0123")
        answers = {
            "n1": (protocol.CaughtUp(), protocol.Released(2.0), protocol.RankStarted(0, 7, 2.0)),
            "n2": (ConnectionEnded("broken"),),
            "n3": (),
        }
        for host, each in answers.items():
            fleet.links[host] = cast(AgentLink, Answering(fleet, host, *each))
        asked = await fleet.ask(dict.fromkeys(answers, protocol.Ping(leads=True)), Question(protocol.Released), 0.05)
        assert asked.replies == {"n1": protocol.Released(2.0)}
        assert (asked.ended, asked.waiting) == ({"n2": ConnectionEnded("broken")}, {"n3"})
        assert await left(fleet) == [
            ("n1", protocol.CaughtUp()),
            ("n1", protocol.RankStarted(0, 7, 2.0)),
            ("n2", ConnectionEnded("broken")),
        ]
        again = await fleet.ask({"n2": protocol.Ping(leads=True)}, Question(protocol.Released), 60)
        assert again.ended == {"n2": ConnectionEnded("broken")}, "a node that has ended is not awaited"

    asyncio.run(story())


def test_an_interrupt_ends_the_work_that_runs_or_the_next_one_and_waits_for_a_subscriber_otherwise() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        fleet = Fleet(PLAN, "0123")
        asyncio.get_running_loop().call_soon(fleet.interrupt, "first")
        with pytest.raises(KeyboardInterrupt, match="first"):
            await fleet.unless_interrupted(forever())
        fleet.interrupt("between")
        with pytest.raises(KeyboardInterrupt, match="between"):
            await fleet.unless_interrupted(forever())
        arrive(fleet, ("n1", protocol.CaughtUp()))
        fleet.interrupt("last")
        assert await fleet.inbox.hear() == ("", Interrupted("last")), "ahead of what waits"

    asyncio.run(story())


class Stuck:
    """A link whose node reads nothing."""

    async def send(self, message: object) -> None:
        await asyncio.Event().wait()


def test_a_node_that_reads_nothing_delays_no_question_beyond_its_time() -> None:
    async def story() -> None:
        fleet = Fleet(PLAN, "0123")
        fleet.links["n1"] = cast(AgentLink, Answering(fleet, "n1", protocol.Released(2.0)))
        fleet.links["n2"] = cast(AgentLink, Stuck())
        asking = fleet.ask(dict.fromkeys(("n1", "n2"), protocol.Ping(leads=True)), Question(protocol.Released), 0.05)
        asked = await asyncio.wait_for(asking, 60)
        assert (asked.replies, asked.waiting) == ({"n1": protocol.Released(2.0)}, {"n2"})

    asyncio.run(story())
