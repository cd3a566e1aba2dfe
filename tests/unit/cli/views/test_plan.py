"""A plan as a dry run prints it: which layer each variable of a rank is from."""

from pylaunch.cli.planning import plan_document, plan_lines
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.render import render

HOSTS = (Host("n1", "10.0.0.1", devices=(0, 1), interface="eth1"), Host("n2", "10.0.0.2", devices=(4, 5, 6)))


def planned(framework: Framework = Framework.DIRECT, hosts: tuple[Host, ...] = HOSTS, **changes: object) -> RunPlan:
    return plan_run(Cluster(hosts), JobSpec(("train.py",), framework, "/home/ml", **changes), "7f3a9c01")  # type: ignore[arg-type]


def layers(plan: RunPlan) -> dict[str, list[str]]:
    """Return the lines of the environment by layer; the text after the colon is the first line."""
    text = "\n".join(plan_lines(plan, render(plan))).partition("a layer overrides those above it\n")[2]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("    "):
            found[list(found)[-1]].append(line.strip())
        else:
            name, _, rest = line.strip().partition(":")
            found[name] = [rest.strip()]
    return found


def test_each_variable_is_below_its_layer() -> None:
    found = layers(planned(env={"OMP_NUM_THREADS": "8", "NOTE": "two words"}))
    assert found["flags"] == ["", "NOTE='two words'", "OMP_NUM_THREADS=8"]
    assert found["framework"] == [
        "", "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
    ]  # fmt: skip


def test_values_that_differ_are_in_the_order_of_ranks_and_equal_ones_are_shown_once() -> None:
    found = layers(planned(interface="ib0"))
    assert found["inventory"] == ["", "CUDA_VISIBLE_DEVICES=0,1; 4,5,6"]
    assert "GLOO_SOCKET_IFNAME=ib0" in found["flags"]
    assert {"LOCAL_RANK=0; 1; 2", "RANK=0 … 4", "WORLD_SIZE=5"} < {*found["identity"]}


def test_ranks_with_the_same_command_line_share_a_line() -> None:
    lines = list(plan_lines(plan := planned(), render(plan)))
    assert "  ranks 0-1: /opt/pylaunch/current/bin/python -u train.py" in lines
    lines = list(plan_lines(plan := planned(Framework.DEEPSPEED), render(plan)))
    assert "  rank 1: /opt/pylaunch/current/bin/python -u train.py --local_rank=1" in lines


def test_a_secret_is_masked_in_text_and_in_json_in_its_layer() -> None:
    plan = planned(secrets=("HF_TOKEN",))
    assert layers(plan)["secrets"] == ["", "HF_TOKEN='***'"]
    (node, _) = plan_document(plan, render(plan))["nodes"]
    assert node["env"]["HF_TOKEN"] == node["ranks"][0]["env"]["HF_TOKEN"] == "***"
    assert {"name": "HF_TOKEN", "value": "***", "layer": "secrets", "overrides": []} in node["variables"]


def test_the_document_has_the_layer_of_each_variable_and_those_of_one_rank_apart() -> None:
    plan = planned(env={"OMP_NUM_THREADS": "8", "RANK": "9"}, rendezvous_port=29500)
    document = plan_document(plan, render(plan))
    assert document["layers"][0] == "flight recorder"
    (node, _) = document["nodes"]
    variables = {each["name"]: each for each in node["variables"]}
    assert variables["OMP_NUM_THREADS"]["overrides"] == [{"layer": "framework", "value": "1"}]
    own = {each["name"]: each for each in node["ranks"][1]["variables"]}
    assert own["RANK"] == {
        "name": "RANK", "value": "1", "layer": "identity", "overrides": [{"layer": "flags", "value": "9"}],
    }  # fmt: skip
    assert "PATH" not in own
    assert node["ranks"][1]["env"]["PATH"] == node["env"]["PATH"]
