"""The release: messages that a session awaits before the run is followed."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import cast

import pytest

from pylaunch import protocol
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.render import render
from pylaunch.runs.connect.agent_link import AgentLink, LinkError
from pylaunch.runs.connect.bounds import ConnectionEnded, Interrupted
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.events import Start
from pylaunch.runs.prepare.launch import Launch
from pylaunch.runs.prepare.session import (
    ALL_PAIRS,
    MOST_LEAD_S,
    RELEASED_TIMEOUT_S,
    SENT_S,
    InterruptedBeforeReleaseError,
    NodesRefusedError,
    Session,
    before_release,
    lead_s,
    room_hint,
    targets,
    try_connections,
)
from pylaunch.transport.connections import LocalConnector
from pylaunch.transport.process import Child
from tests.unit.runs.follow.test_run_follower import Listener
from tests.unit.runs.messages import arrive, left

CLUSTER = Cluster(tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(("n1", "n2", "n3"))))
PLAN = plan_run(CLUSTER, JobSpec(("true",), Framework.COMMAND, "/tmp"), "7f3a9c01")
HELLO = protocol.Hello(protocol.PROTOCOL, 7, "prepared", [])


Answers = Mapping[type, Sequence[tuple[str, object]]]
"""Messages that arrive once the first node has received a message of each type."""


class Node:
    """A node that answers Ping, unless something else arrives then, and keeps what it receives."""

    def __init__(self, fleet: Fleet, host: str, sent: list[object], answers: Answers) -> None:
        self._fleet, self._host, self._sent, self._answers = fleet, host, sent, answers

    async def send(self, line: bytes) -> None:
        message = protocol.decode(line)
        is_first = type(message) not in {type(each) for each in self._sent}
        self._sent.append(message)
        if is_first:
            arrive(self._fleet, *self._answers.get(type(message), ()))
        if isinstance(message, protocol.Ping) and protocol.Ping not in self._answers:
            arrive(self._fleet, (self._host, protocol.Pong(0.0)))


def link(fleet: Fleet, hosts: Sequence[Host], answers: Answers) -> list[object]:
    """Link `fleet` with `hosts`; return what these receive."""
    sent: list[object] = []
    for host in hosts:
        child = cast(Child, Node(fleet, host.name, sent, answers))
        fleet.links[host.name] = AgentLink(LocalConnector(host), child, HELLO, ClockOffset(0.0, 0.0))
    return sent


async def release(session: Session, fleet: Fleet) -> Start:
    """Release all nodes."""
    await before_release(fleet, session.confirm())
    return await session.release()


def session_of(plan: RunPlan, fleet: Fleet, listener: Listener | None = None) -> Session:
    launch = Launch(plan, render(plan), record="")
    return Session(launch, fleet, listener or Listener())


def refusal(plan: RunPlan) -> NodesRefusedError:
    """Return the error with which a session that prepares `plan` is refused."""

    async def prepare() -> None:
        async with asyncio.timeout(60):
            await session_of(plan, Fleet(plan, "0123")).prepare(lambda hosts, unwanted: {})

    with pytest.raises(NodesRefusedError) as refused:
        asyncio.run(prepare())
    return refused.value


def pongs(hosts: Iterable[str]) -> list[tuple[str, object]]:
    return [(name, protocol.Pong(0.0)) for name in hosts]


def skew_and_rest(*messages: tuple[str, object], to: type = protocol.Release) -> tuple[float, list[tuple[str, object]]]:
    """Return the skew of a release that these messages answer, and the messages left for the follower."""

    async def story() -> tuple[float, list[tuple[str, object]]]:
        fleet = Fleet(PLAN, "0123")
        link(fleet, CLUSTER.hosts, {to: messages})
        async with asyncio.timeout(RELEASED_TIMEOUT_S / 2):
            start = await release(session_of(PLAN, fleet), fleet)
        return start.skew, await left(fleet)

    return asyncio.run(story())


@pytest.mark.parametrize(
    "last",
    [
        protocol.Stopping("n2: rank 1 was killed by SIGKILL", 3.0),
        protocol.Failed("it cannot continue"),
        ConnectionEnded("broken"),
    ],
)
def test_a_node_that_ends_before_its_instant_is_not_awaited(last: object) -> None:
    started = protocol.RankStarted(1, 9, 2.5)
    skew, rest = skew_and_rest(
        ("n2", protocol.Released(2.5)), ("n2", started), ("n1", last), ("n3", protocol.Released(2.0))
    )  # fmt: skip
    assert skew == 0.5
    assert rest == [("n2", started), ("n1", last)]


def test_ctrl_c_during_the_release_is_handled_at_once() -> None:
    skew, rest = skew_and_rest(("n2", protocol.Released(2.5)), ("", Interrupted("interrupted")))
    assert skew == 0.0
    assert rest == [("", Interrupted("interrupted"))]


def released(hosts: int) -> tuple[float, list[protocol.Release]]:
    """Return the time before a release of so many nodes, and the messages that they are sent."""
    cluster = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(hosts)))
    plan = plan_run(cluster, JobSpec(("true",), Framework.COMMAND, "/tmp"), "7f3a9c01")

    async def story() -> tuple[float, list[object]]:
        fleet = Fleet(plan, "0123")
        sent = link(fleet, cluster.hosts, {protocol.Release: [("", Interrupted("nobody answers"))]})
        began = time.time()
        await release(session_of(plan, fleet), fleet)
        return began, sent

    began, sent = asyncio.run(story())
    return began, [message for message in sent if isinstance(message, protocol.Release)]


@pytest.mark.parametrize("hosts", [1, 200])
def test_the_instant_of_a_release_is_one_and_leaves_time_to_send_it_to_every_node(hosts: int) -> None:
    began, messages = released(hosts)
    assert len(messages) == hosts
    assert len({message.at for message in messages}) == 1
    assert messages[0].at - began >= MOST_LEAD_S + hosts * SENT_S


@pytest.mark.parametrize(("answered_s", "lead"), [(0.001, 0.01), (0.012, 0.024), (6.0, 0.05)])
def test_nodes_that_answer_late_get_a_release_with_more_lead(answered_s: float, lead: float) -> None:
    assert lead_s(answered_s, nodes=4) == pytest.approx(lead + 4 * SENT_S)


def test_the_same_error_of_many_hosts_is_one_line_in_the_order_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tuple(Host(f"gpu{number}", f"10.0.0.{number}") for number in (3, 1, 2, 4)))
    job = JobSpec(("true",), Framework.COMMAND, "/tmp", start_timeout=timedelta(milliseconds=10))
    plan = plan_run(cluster, job, "7f3a9c01")
    errors = {
        each.name: LinkError(f"ssh {each.address}: no route (connect to host {each.address})", f"look at {each.name}")
        for each in cluster.hosts
    } | {"gpu3": LinkError("host key unknown", "pylaunch trust --limit gpu3")}

    async def refused(fleet: Fleet, names: Sequence[str], verb: str, **_: object) -> dict[str, LinkError]:
        return dict(reversed(errors.items())) if verb == "open" else {}

    monkeypatch.setattr(Fleet, "connect", refused)
    assert refusal(plan).render().splitlines() == [
        "error: 4 of 4 hosts cannot take part, so no rank was started",
        "  gpu3: host key unknown",
        "  gpu[1-2,4]: ssh 10.0.0.[1-2,4]: no route (connect to host 10.0.0.[1-2,4])",
        "",
        "hint: pylaunch trust --limit gpu3",
        "      look at gpu[1-2,4]",
    ]
    monkeypatch.setattr(Fleet, "connect", lambda *_: asyncio.sleep(0, {}))
    assert refusal(plan).hint == "pylaunch check --limit gpu[1-4]  # or give them more: --start-timeout"


@pytest.mark.parametrize("last", [protocol.Failed("broken"), ConnectionEnded("broken")])
def test_a_node_that_was_ready_and_is_gone_refuses_the_release_of_all(last: object) -> None:
    with pytest.raises(NodesRefusedError, match="no rank was started") as refused:
        skew_and_rest(*pongs(["n1", "n3"]), ("n2", last), to=protocol.Ping)
    assert refused.value.reasons == {"n2": ("it was ready, and then: broken",)}


BY_HAND = protocol.Stopping("stopped with pylaunch stop by anna@laptop", 1.0, by_hand=True)


@pytest.mark.parametrize(
    ("last", "words"), [(("", Interrupted("interrupted")), "interrupted"), (("n2", BY_HAND), "by anna@laptop")]
)
def test_an_interrupt_or_a_stop_by_hand_before_the_release_starts_no_rank(last: tuple[str, object], words: str) -> None:
    with pytest.raises(InterruptedBeforeReleaseError, match=f"{words} before any rank was started"):
        skew_and_rest(*pongs(["n1", "n3"]), last, to=protocol.Ping)


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def test_a_few_nodes_try_every_pair_in_both_directions() -> None:
    assert targets(names(3)) == {"n0": ("n1", "n2"), "n1": ("n0", "n2"), "n2": ("n0", "n1")}
    assert targets(["n0"]) == {"n0": ()}


def test_many_nodes_try_their_ring_both_ways_and_the_first_node() -> None:
    count = ALL_PAIRS + 1
    found = targets(names(count))
    assert found["n7"] == ("n0", "n6", "n8")
    assert found["n0"] == (f"n{count - 1}", "n1")
    assert all("n0" in peers for name, peers in found.items() if name != "n0")
    assert max(map(len, found.values())) == 3


def test_every_node_tries_its_peers_once() -> None:
    async def story() -> list[object]:
        fleet = Fleet(PLAN, "0123")
        tried = [(host.name, protocol.PeersTried({"n1": "ok", "n2": "ok", "n3": "ok"})) for host in CLUSTER.hosts]
        sent = link(fleet, CLUSTER.hosts, {protocol.TryPeers: tried})
        ends = await try_connections(fleet, dict.fromkeys(CLUSTER.names, 4000))
        assert ends["n1"] == {"n2": "ok", "n3": "ok"}
        return sent

    assert len(asyncio.run(story())) == len(CLUSTER.hosts)


def test_a_full_file_system_without_room_for_the_agent_has_a_command() -> None:
    root = "/data/pylaunch-{user}"
    assert room_hint("n1", "/data is full (0 KiB of 9 MiB free)", root) == "on n1: df -h /data /tmp"
    assert room_hint("n1", "/data has no inodes left (0 of 9 free)", root) == "on n1: df -i /data /tmp"
    assert [room_hint("n1", why, root) for why in ("no Python", "Disk quota exceeded")] == [None, "on n1: quota -s"]
