"""A plan as a dry run prints it: which layer each variable of a rank is from."""

from pylaunch.cli.views.plan import as_json, lines
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.render import planned_run, render

HOSTS = (Host("n1", "10.0.0.1", devices=(0, 1), interface="eth1"), Host("n2", "10.0.0.2", devices=(4, 5, 6)))


def planned(framework: Framework = Framework.DIRECT, hosts: tuple[Host, ...] = HOSTS, **changes: object) -> RunPlan:
    return plan_run(Cluster(hosts), JobSpec(("train.py",), framework, "/home/ml", **changes), "7f3a9c01")  # type: ignore[arg-type]


def test_ranks_with_the_same_command_line_share_a_line() -> None:
    shown = list(lines(plan := planned(), render(plan)))
    assert "  ranks 0-1: /opt/pylaunch/current/bin/python -u train.py" in shown
    shown = list(lines(plan := planned(Framework.DEEPSPEED), render(plan)))
    assert "  rank 1: /opt/pylaunch/current/bin/python -u train.py --local_rank=1" in shown


def test_the_document_has_the_layer_of_each_variable_those_of_one_rank_apart_and_secrets_masked() -> None:
    plan = planned(env={"OMP_NUM_THREADS": "8", "RANK": "9"}, secrets=("HF_TOKEN",), rendezvous_port=29500)
    document = as_json(planned_run(plan))
    assert document["layers"][0] == "flight recorder"
    (node, _) = document["nodes"]
    assert node["env"]["OMP_NUM_THREADS"] == {"value": "8", "layer": "flags"}
    assert node["env"]["HF_TOKEN"] == {"value": "***", "layer": "secrets"}
    own = node["ranks"][1]["env"]
    assert own["RANK"] == {"value": "1", "layer": "identity"}
    assert not own.keys() & {"PATH", "HF_TOKEN"}
