"""Messages of a node count for its own part of a run alone."""

from typing import Any

import pytest

from pylaunch import protocol
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol import examination as bounds
from pylaunch.protocol.fields import MOST_FACTS
from pylaunch.runs.connect.bounds import (
    MOST_CONTACTS,
    MOST_HANGS,
    EventBounds,
    ForeignMessage,
    Scope,
    _known,
    streams_of,
)

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
PLAN = plan_run(CLUSTER, JobSpec(("true",), Framework.COMMAND, "/", ranks_per_node=2), "7f3a9c01")
FIRST, SECOND = (Scope(PLAN, node) for node in PLAN.nodes)
ALL = frozenset(stream for node in PLAN.nodes for stream in streams_of(node))


@pytest.mark.parametrize(
    "stream", ["/etc/cron.d/x", "../../x", "0.out", "2.out/../../x", "2", "", "4.out", "launcher", "\0", "2.out\n"]
)
def test_output_under_a_name_that_is_not_a_stream_of_the_node_is_foreign(stream: str) -> None:
    assert isinstance(SECOND.confined(protocol.Output(stream, 1, "x", 1.0), ALL), ForeignMessage)
    assert isinstance(SECOND.confined(protocol.Skipped(stream, 0, 1, "/x"), ALL), ForeignMessage)


def test_output_that_was_not_requested_is_foreign() -> None:
    output = protocol.Output("2.out", 1, "x", 1.0)
    assert isinstance(SECOND.confined(output, frozenset({"2.err"})), ForeignMessage)
    assert SECOND.confined(output, frozenset({"2.out"})) is output
    assert isinstance(SECOND.confined(protocol.Output("launcher.out", 1, "x", 1.0), frozenset()), ForeignMessage)


def test_a_node_cannot_end_the_rank_of_another() -> None:
    ended = protocol.RankEnd(2, "", 1, None, 1.0, stopped=False)
    assert SECOND.confined(ended, ALL) == ended
    assert isinstance(FIRST.confined(ended, ALL), ForeignMessage)
    assert isinstance(FIRST.confined(protocol.RankStarted(3, 7, 1.0), ALL), ForeignMessage)


def test_ranks_and_hosts_of_other_nodes_are_removed_from_reports() -> None:
    signs = [protocol.RankSigns(0, 100, 5, 1.0), protocol.RankSigns(2, 100, 9, 1.0)]
    assert FIRST.confined(protocol.Activity(signs), ALL) == protocol.Activity(signs[:1])
    hello = protocol.Hello(1, 1, "running", [0, 2, -1])
    assert FIRST.confined(hello, ALL) == protocol.Hello(1, 1, "running", [0])


def test_evidence_about_ranks_and_hosts_of_other_nodes_is_removed() -> None:
    killed = tuple(protocol.KernelEvent("oom-kill", 1.0, "killed", rank=rank) for rank in (0, 2, None))
    stuck = tuple(protocol.StuckConnection(rank, "::2", 2, 3, 4, 5) for rank in (0, 2, None))
    confined = FIRST.confined(protocol.HostEvidence("n1", 1.0, 0.1, killed, stuck), ALL)
    assert isinstance(confined, protocol.HostEvidence)
    assert [each.rank for each in confined.kernel] == [0, None]
    assert [each.rank for each in confined.stuck] == [0, None]
    tried = FIRST.confined(protocol.PeersTried({"n2": "silent", "bank.example": "silent"}), ALL)
    assert tried == protocol.PeersTried({"n2": "silent"})


def test_only_the_first_node_chooses_the_rendezvous_port_and_ports_exist() -> None:
    ready = protocol.Ready([], {}, 9, rendezvous_port=29500)
    assert FIRST.confined(ready, ALL) == ready
    assert isinstance(SECOND.confined(ready, ALL), protocol.Failed)
    for wrong in (protocol.Ready([], {}, 9, rendezvous_port=1 << 20), protocol.Ready([], {}, -1), protocol.Refused([])):
        assert isinstance(FIRST.confined(wrong, ALL), protocol.Failed)


def test_a_node_reports_states_of_its_own_ranks_and_each_once() -> None:
    states = [protocol.RankState(rank, "D", None, None) for rank in (0, 0, 2, 7)]
    confined = FIRST.confined(protocol.Stopping("x", 1.0, ranks=states), ALL)
    assert isinstance(confined, protocol.Stopping)
    assert [each.rank for each in confined.ranks] == [0]


@pytest.mark.parametrize(
    "message",
    [
        protocol.RankEnd(0, "", 1, None, 1.0, False, ("y" * 9000,) * 200, "x" * 90_000, symptom="x" * 90_000),
        protocol.RankEnd(None, "", 1, None, 1.0, False, ("y" * 9000,) * 200, symptom="x" * 90_000),
        protocol.Stopping("x" * 900_000, 1.0),
        protocol.Finished(["x" * 5000] * 400),
        protocol.Failed("x" * 900_000),
        protocol.PeersTried({"n2": "x" * 900_000}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_texts_of_a_node_are_no_longer_than_those_of_an_agent(message: object) -> None:
    confined = FIRST.confined(protocol.decode(protocol.encode(message)), ALL)
    assert type(confined) is type(message)
    assert 0 < len(protocol.encode(confined)) < 1_100_000
    texts = [text for value in vars(confined).values() for text in _texts(value)]
    assert 0 < max(map(len, texts)) <= 4000
    assert len(texts) < 300


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [str(each) for each in value.values()]
    listed = value if isinstance(value, list) else [value]
    return [each for each in listed if isinstance(each, str)]


def bounded(message: Any) -> Any:
    found = _known(protocol.decode(protocol.encode(message)))
    assert type(found) is type(message)
    return found


def test_what_a_node_invents_is_cut_or_omitted() -> None:
    thread = protocol.ThreadStack("t" * 400, is_main=True, frames=(protocol.Frame("f" * 400, "p.py", 1),) * 70)
    call = protocol.Collective("0", 1, "add", ((1,) * 20,) * 20, (), ("Float",) * 20, is_retired=True)
    view = bounded(
        protocol.RankView(
            3, "", 1.0, 0.0, 7, "Sleeping", 2.5, "a friend", "", (thread,) * 70,
            (protocol.ProcessGroup("0", "", (1,) * 5000),), (*(call,) * 400, protocol.Collective(
                "last", 9, "add", (), (), (), is_retired=False)),
        )
    )  # fmt: skip
    assert (view.source, view.state) == ("", "S")
    assert len(view.threads) == bounds.MOST_THREADS
    assert len(view.threads[0].name) == len(view.threads[0].frames[0].function) == bounds.LONGEST_TEXT
    assert len(view.threads[0].frames) == bounds.MOST_STACK_FRAMES
    assert len(view.groups[0].ranks) == bounds.MOST_GROUP_RANKS
    assert (len(view.collectives), view.collectives[-1].group) == (bounds.MOST_COLLECTIVES, "last")
    first = view.collectives[0]
    assert {len(first.input_sizes), len(first.input_sizes[0]), len(first.dtypes)} == {bounds.MOST_TENSORS}


def test_a_node_can_fill_neither_the_record_nor_the_terminal() -> None:
    long = "x" * 400
    facts = protocol.HostEvidence(
        "", 1.0, 0.1,
        (protocol.KernelEvent(long, 1.0, long, long),) * 200,
        (protocol.StuckConnection(0, long, 2, 3, 4, 5),) * 200,
        (long,) * 200, 0.0, (long,) * 200,
    )  # fmt: skip
    found = bounded(facts)
    assert len(found.kernel) == len(found.stuck) == len(found.addresses) == MOST_FACTS
    assert len(found.missing) == MOST_FACTS
    texts = [found.kernel[0].text, found.stuck[0].peer, found.addresses[0], found.missing[0]]
    assert max(map(len, texts)) == bounds.LONGEST_TEXT


def admitted(events: list[Event]) -> tuple[list[Event], list[str]]:
    bounds = EventBounds()
    found, notices = [], []
    for event in events:
        if bounds.admits(event):
            found.append(event)
        elif notice := bounds.notice(event):
            notices.append(notice)
    return found, notices


def test_each_rank_starts_once_and_ends_once() -> None:
    events = [
        Event(float(number), kind, "n1", rank, f"pid {number}")
        for number in range(500)
        for rank in (0, 1)
        for kind in (EventKind.RANK_STARTED, EventKind.RANK_ENDED)
    ]
    found, notices = admitted(events)
    assert found == events[:4]
    assert notices == []


def test_contact_to_a_node_is_bounded_for_itself_alone() -> None:
    flapping = [Event(1.0, EventKind.CONTACT_LOST, "n1", text="x")] * (3 * MOST_CONTACTS)
    other = Event(1.0, EventKind.CONTACT_LOST, "n2", text="x")
    found, notices = admitted([*flapping, other])
    assert len(found) == MOST_CONTACTS + 1
    assert found[-1] == other
    assert notices == [f"note: {MOST_CONTACTS} events contact_lost of n1 are recorded; further ones are not"]


@pytest.mark.parametrize("kind", [EventKind.HANG, EventKind.ADVANCING])
def test_hangs_that_come_and_go_are_bounded(kind: EventKind) -> None:
    found, notices = admitted([Event(1.0, kind)] * (2 * MOST_HANGS))
    assert len(found) == MOST_HANGS
    assert len(notices) == 1


def test_the_end_and_the_stop_of_a_run_are_always_recorded() -> None:
    events = [Event(float(number), EventKind.STOP_ASKED) for number in range(1000)]
    events.append(Event(1.0, EventKind.ENDED))
    assert admitted(events)[0] == events
