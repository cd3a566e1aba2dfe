"""What nodes say of the runs they know, and how their hosts are then reached."""

from __future__ import annotations

import json
from dataclasses import replace

from pylaunch.launch.discover import reached_by, read_answer
from pylaunch.model.cluster import Cluster, Host, SshOptions
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.store.runs import pack

HOSTS = Cluster(
    (Host("n1", "10.0.0.1", node_root="/scratch/p"), Host("n2", "10.0.0.2")), known_hosts="/there/known_hosts"
)
PLAN = plan_run(HOSTS, JobSpec(("train.sh",), Framework.COMMAND, "/w", env={"A": "ü"}), "7f3a9c01")


def test_a_record_survives_its_time_on_a_node() -> None:
    said = [{"run": "7f3a9c01", "host": "n1", "live": True, "record": pack(PLAN, "0123", 12.5)}]
    answer = read_answer(json.dumps(said))
    assert not isinstance(answer, str)
    (known,) = answer
    assert (known.record.plan, known.record.agent, known.record.created_at, known.is_live) == (PLAN, "0123", 12.5, True)
    assert known.record.outcome is None


def test_runs_of_other_versions_are_left_out() -> None:
    said = [{"run": "a", "host": "n1", "live": True}, {"run": "b", "live": True, "record": "bm90IHpsaWI="}, "c"]
    assert read_answer(json.dumps(said)) == ()


def test_an_answer_that_is_none_is_quoted() -> None:
    assert read_answer("Welcome to gpu01!") == "expected JSON, got 'Welcome to gpu01!'"


def test_hosts_are_reached_as_this_machine_reaches_them_and_keep_their_own_directories() -> None:
    here = Cluster((Host("n1", "192.168.0.1", ssh=SshOptions(user="ops")),), sources=("/here/cluster.ini",))
    plan = reached_by(PLAN, here)
    assert plan.nodes[0].host == replace(HOSTS["n1"], address="192.168.0.1", ssh=SshOptions(user="ops"))
    assert plan.nodes[1].host == HOSTS["n2"]
    assert (plan.known_hosts, plan.sources) == (None, ("/here/cluster.ini",))
