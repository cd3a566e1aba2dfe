"""Messages of a node count for its own part of a run alone."""

import pytest

from pylaunch import protocol
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.connect.confine import ForeignMessage, Scope, streams_of

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
    usage = protocol.Usage(
        0.5, 1, 2, 3.0, 4.0, None, 0, 0, [protocol.StepMark(0, 5, 1.0), protocol.StepMark(2, 9, 1.0)]
    )
    confined = FIRST.confined(usage, ALL)
    assert isinstance(confined, protocol.Usage)
    assert confined.steps == [protocol.StepMark(0, 5, 1.0)]
    hello = protocol.Hello(1, "v", "r", "n1", 1, 0, "3.11", "running", 1.0, [0, 2, -1])
    assert FIRST.confined(hello, ALL) == protocol.Hello(1, "v", "r", "n1", 1, 0, "3.11", "running", 1.0, [0])
    assert FIRST.confined(protocol.PeersUnheard(["n2", "bank.example"]), ALL) == protocol.PeersUnheard(["n2"])


def test_evidence_about_ranks_and_hosts_of_other_nodes_is_removed() -> None:
    killed = tuple(protocol.KernelEvent("oom-kill", 1.0, "killed", rank=rank) for rank in (0, 2, None))
    stuck = tuple(protocol.StuckConnection(rank, "ESTABLISHED", "::2", 2, 3, 0, 4) for rank in (0, 2, None))
    confined = FIRST.confined(protocol.HostEvidence("n1", 1.0, 0.1, killed, stuck), ALL)
    assert isinstance(confined, protocol.HostEvidence)
    assert [each.rank for each in confined.kernel] == [0, None]
    assert [each.rank for each in confined.stuck] == [0, None]
    tried = FIRST.confined(protocol.PeersTried({"n2": "silent", "bank.example": "silent"}), ALL)
    assert tried == protocol.PeersTried({"n2": "silent"})


def test_only_the_first_node_chooses_the_rendezvous_port_and_ports_exist() -> None:
    assert FIRST.confined(protocol.Ready(1.0, [], {}, 9, rendezvous_port=29500), ALL) == protocol.Ready(
        1.0, [], {}, 9, rendezvous_port=29500
    )
    assert isinstance(SECOND.confined(protocol.Ready(1.0, [], {}, 9, rendezvous_port=29500), ALL), protocol.Failed)
    assert isinstance(FIRST.confined(protocol.Ready(1.0, [], {}, 9, rendezvous_port=1 << 20), ALL), protocol.Failed)
    assert isinstance(FIRST.confined(protocol.Ready(1.0, [], {}, -1), ALL), protocol.Failed)


def test_a_node_reports_states_of_its_own_ranks_and_each_once() -> None:
    states = [protocol.RankState(rank, "D", None, None) for rank in (0, 0, 2, 7)]
    confined = FIRST.confined(protocol.Stopping("x", 1.0, ranks=states), ALL)
    assert isinstance(confined, protocol.Stopping)
    assert [each.rank for each in confined.ranks] == [0]


@pytest.mark.parametrize(
    "message",
    [
        protocol.RankEnd(0, "", 1, None, 1.0, False, ("y" * 9000,) * 9000, "x" * 90_000, symptom="x" * 90_000),
        protocol.RankEnd(None, "", 1, None, 1.0, False, ("y" * 9000,) * 9000, symptom="x" * 90_000),
        protocol.Stopping("x" * 900_000, 1.0),
        protocol.Finished(["x" * 9000] * 9000, [], 1.0),
        protocol.Failed("x" * 900_000),
        protocol.PeersTried({"n2": "x" * 900_000}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_texts_of_a_node_are_no_longer_than_those_of_an_agent(message: object) -> None:
    confined = FIRST.confined(message, ALL)
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
