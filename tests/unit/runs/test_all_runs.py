"""Records of runs that nodes report: decoded strictly, without connection settings."""

import base64
import json
import re
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.cli import main
from pylaunch.cli.commands.watch import ps
from pylaunch.errors import ClusterNotReadyError, ExitCode
from pylaunch.model.cluster import Cluster, Connection, Host, SshOptions
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.node_record import MAX_RANKS, NotARecordError, RecordReader, pack, unpack
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.run import RunRecord
from pylaunch.runs import status
from pylaunch.runs.all_runs import KnownRuns, NoAnswerError, merged, read_answer
from pylaunch.store import runs
from pylaunch.terminal.flags import resolve_run
from pylaunch.transport.connections import connector_of

AGENT = "0123456789abcdef"
RUN = "7f3a9c01"
HOSTS = Cluster(
    (Host("n1", "10.0.0.1", node_root="/scratch/p"), Host("n2", "10.0.0.2")), known_hosts="/there/known_hosts"
)
PLAN = plan_run(HOSTS, JobSpec(("train.sh",), Framework.COMMAND, "/w", env={"A": "ü"}), RUN)
HERE = Cluster(
    (Host("n1", "192.168.0.1", ssh=SshOptions(user="ops")),), sources=("/here/cluster.ini",), known_hosts="/here/kh"
)


def answer_of(*records: str, live: bool = True) -> str:
    return json.dumps([{"run": RUN, "host": "n1", "live": live, "record": record} for record in records])


def answered(text: str, cluster: Cluster = HERE) -> tuple[RunRecord, ...]:
    return read_answer(text, RecordReader(cluster)).records


def forged(plan: RunPlan = PLAN, **changes: object) -> str:
    """Return a record that a rank wrote, with `changes` to its fields."""
    body = json.loads(zlib.decompress(base64.b64decode(pack(plan, AGENT, 12.5))))
    return base64.b64encode(zlib.compress(json.dumps({**body, **changes}).encode())).decode()


def test_a_record_survives_its_time_on_a_node() -> None:
    answer = read_answer(answer_of(pack(PLAN, AGENT, 12.5)), RecordReader(HOSTS))
    (record,) = answer.records
    assert answer.live == {RUN}
    assert (record.agent, record.created_at, record.outcome) == (AGENT, 12.5, None)
    assert (record.plan.run, record.plan.nodes) == (PLAN.run, PLAN.nodes)
    assert (record.plan.job.command, record.plan.job.workdir) == (("train.sh",), "/w")
    assert record.is_foreign


def test_a_record_on_a_node_contains_no_connection_settings_and_no_environment() -> None:
    host = Host("n1", "10.9.9.9", ssh=SshOptions("root", 2222, "/keys/id", ("-o", "ProxyCommand=p")))
    job = JobSpec(("a",), Framework.COMMAND, "/w", env={"PASS": "hunter2"}, secrets=("HF_TOKEN",))
    plan = plan_run(Cluster((host,), ("/here/cluster.ini",), "/here/known_hosts"), job, RUN)
    content = zlib.decompress(base64.b64decode(pack(plan, AGENT, 1.0))).decode()
    for word in ("10.9.9.9", "2222", "/keys/id", "ProxyCommand", "hunter2", "HF_TOKEN", "/here"):
        assert word not in content


def test_connection_settings_are_those_of_our_inventory_whatever_the_record_contains() -> None:
    evil = {"host": "n1", "ranks": 1, "devices": [], "address": "6.6.6.6", "ssh": {"common_args": ["-oProxyCommand=x"]}}
    (record,) = answered(answer_of(forged(nodes=[evil], known_hosts="/evil", sources=["/evil"], agent_python="/evil")))
    assert [node.host for node in record.plan.nodes] == [HERE["n1"]]
    assert (record.plan.known_hosts, record.plan.sources) == ("/here/kh", ("/here/cluster.ini",))


def test_a_host_that_our_inventory_lacks_is_reported_and_not_connected_to() -> None:
    (record,) = answered(answer_of(pack(PLAN, AGENT, 12.5)))
    stranger = record.plan.nodes[1].host
    assert (stranger.name, stranger.connection) == ("n2", Connection.NONE)
    with pytest.raises(ClusterNotReadyError, match="n2 is not in the inventory"):
        connector_of(stranger, None).argv(("true",))
    assert merged({"n1": KnownRuns((record,), frozenset({RUN}))}).notes == (
        f"note: run {RUN} has n2, not in this inventory: not connected to",
    )


def test_an_adopted_run_is_reached_as_the_inventory_that_is_given_now_says(monkeypatch: pytest.MonkeyPatch) -> None:
    text = answer_of(pack(PLAN, AGENT, 12.5))
    runs.adopt(*answered(text))
    asked: list[RunRecord] = []

    def statuses(records: list[RunRecord], *_: object) -> list[status.RunStatus]:
        asked.extend(records)
        return [status.RunStatus((), None) for _ in records]

    monkeypatch.setattr(status, "statuses", statuses)
    monkeypatch.setattr(ps, "load_cluster", lambda _: HOSTS)
    found = merged({"n1": read_answer(text, RecordReader(HOSTS))})
    monkeypatch.setattr(resolve_run, "discover_runs", lambda _: found)
    assert main.run(["ps", "-i", "cluster.ini", "--all"]) == ExitCode.DONE
    assert [node.host.address for node in asked[0].plan.nodes] == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize(
    "changes",
    [
        {"run": "../../.."},
        {"run": "/etc/cron.d"},
        {"run": RUN + "\n"},
        {"run": RUN + ".0"},
        {"agent": "../../evil"},
        {"agent": ""},
        {"created_at": 1e300},
        {"created_at": -1.0},
        {"node_timeout_s": 1e18},
        {"max_restarts": -1},
        {"max_restarts": 1 << 70},
        {"command": []},
        {"command": "sh"},
        {"framework": "rootkit"},
        {"nodes": []},
        {"nodes": [{"host": "../n1", "ranks": 1, "devices": []}]},
        {"nodes": [{"host": "..", "ranks": 1, "devices": []}]},
        {"nodes": [{"host": "n1\nn2", "ranks": 1, "devices": []}]},
        {"nodes": [{"host": "n1", "ranks": 1 << 40, "devices": []}]},
        {"nodes": [{"host": f"n{i}", "ranks": 4096, "devices": []} for i in range(100)]},
        {"nodes": [{"host": "n1", "ranks": 1, "devices": []}] * 2},
        {"spares": ["n1"]},
        {"kind": "record"},
    ],
    ids=str,
)
def test_a_forged_record_is_left_out(changes: dict[str, Any]) -> None:
    assert answered(answer_of(forged(**changes))) == ()
    assert len(answered(answer_of(forged(**changes), forged()))) == 1


@pytest.mark.parametrize(
    "content", [b"[" * 2_000_000, b'{"kind":"record-2","x":' + b"[" * 2_000_000, bytes(64 << 20), b"", b"\xff"]
)
def test_a_record_that_unpacks_to_too_much_is_left_out(content: bytes) -> None:
    assert answered(answer_of(base64.b64encode(zlib.compress(content)).decode())) == ()


def test_the_records_of_one_node_share_a_limit_and_live_and_small_ones_come_first() -> None:
    """A rank forges large records, live ones too, and more than are read; the honest run is shown."""
    large = [{"host": f"h{number}", "ranks": 1000, "devices": []} for number in range(40)]
    live = [forged(run=f"{number:08x}", nodes=large) for number in range(9)]
    old = [forged(run=f"1{number:07x}", nodes=large[:1]) for number in range(600)]
    honest = pack(PLAN, AGENT, 12.5)
    entries = [{"live": True, "record": record} for record in live] + [{"record": record} for record in old]
    reader = RecordReader(HERE)
    answer = read_answer(json.dumps([*entries, {"live": True, "record": honest}, {"omitted": 9000}]), reader)
    runs = [record.plan.run for record in answer.records]
    assert runs[0] == RUN
    assert sum(record.plan.world_size for record in answer.records) <= MAX_RANKS
    limits = "the records of one node may name 65536 ranks and 16384 hosts"
    assert answer.omitted == f"{610 - len(runs) + 9000} of its runs are not shown: {limits}"
    assert (
        merged({"n1": answer, "n2": read_answer(answer_of(honest), reader)}).notes[-1] == f"note: n1: {answer.omitted}"
    )


def test_records_that_unpack_to_much_share_a_limit() -> None:
    heavy = [forged(run=f"{number:08x}", command=["x" * (3 << 20)]) for number in range(9)]
    assert len(answered(answer_of(*heavy, pack(PLAN, AGENT, 12.5)))) == 6


@given(st.one_of(st.text(), st.binary().map(lambda content: base64.b64encode(zlib.compress(content)).decode())))
def test_any_text_is_a_record_or_refused(text: str) -> None:
    with pytest.raises(NotARecordError):
        unpack(text, HERE)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Welcome to gpu01!", "expected JSON (Expecting value: line 1 column 1 (char 0)), got 'Welcome to gpu01!'"),
        ("[" * 500_000, "expected JSON (nested too deeply), got"),
        ("{}", "expected a list of runs, got '{}'"),
    ],
)
def test_an_invalid_answer_is_quoted(text: str, complaint: str) -> None:
    with pytest.raises(NoAnswerError, match=re.escape(complaint)):
        read_answer(text, RecordReader(HERE))


def test_where_nodes_contradict_each_other_the_record_of_the_first_that_is_part_of_the_run_counts() -> None:
    true = unpack(pack(PLAN, AGENT, 12.5), HOSTS)
    lie = unpack(forged(plan_run(HOSTS.only(["n1"]), PLAN.job, RUN)), HOSTS)
    found = merged({"n3": KnownRuns((lie,), frozenset({RUN})), "n1": KnownRuns((true,)), "n2": KnownRuns((true,))})
    assert (found.records, found.live, found.notes) == ((true,), frozenset(), ())
