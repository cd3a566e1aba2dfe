"""What a script contains, and plans that none can start."""

import re
from dataclasses import replace

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.render_files.scripts import comments, job_label, slurm_script, torchrun_script
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import PORT_ENTRY, RunPlan, plan_run
from tests.features.render_files.samples import SCRIPTS, planned, rendered

TWO = (Host("n1", "10.0.0.1", devices=(0, 1)), Host("n2", "10.0.0.2", devices=(0, 1)))


def plan(*command: str, hosts: tuple[Host, ...] = TWO, **job: object) -> RunPlan:
    spec = JobSpec(command or ("train.py",), Framework.DIRECT, "/home/ml", **job)  # type: ignore[arg-type]
    return plan_run(Cluster(hosts), spec, "train")


@pytest.mark.parametrize(("sample", "target"), SCRIPTS)
def test_a_script_has_no_placeholder_of_pylaunch(sample: str, target: str) -> None:
    assert PORT_ENTRY not in rendered(sample, target)


@pytest.mark.parametrize("target", ["slurm", "torchrun"])
def test_a_secret_is_named_and_has_no_value(target: str) -> None:
    text = rendered("even", target)
    assert "HF_TOKEN" in text
    assert not re.search(r"HF_TOKEN=(?!\"\$HF_TOKEN)\S", text)


def test_nodes_that_differ_are_refused_where_one_command_starts_all() -> None:
    hosts = (TWO[0], replace(TWO[1], python="/usr/bin/python3"))
    with pytest.raises(UsageError, match="different interpreters") as refused:
        slurm_script(plan(hosts=hosts))
    assert refused.value.evidence == ("n1: /opt/pylaunch/current/bin/python", "n2: /usr/bin/python3")
    with pytest.raises(UsageError, match="different numbers of ranks"):
        slurm_script(planned("uneven", Framework.DIRECT))


def test_slurm_derives_the_port_from_the_job_unless_a_flag_names_it() -> None:
    assert "$((61440 + SLURM_JOB_ID % 4096))" in slurm_script(plan()).text
    assert "export MASTER_PORT=4000" in slurm_script(plan(rendezvous_port=4000)).text


def test_each_node_has_a_command_with_its_number() -> None:
    use = torchrun_script(planned("uneven", Framework.TORCHRUN)).use
    assert use[0] == "ssh -p 2222 ml@10.0.0.1 bash -s 0 <train.sh"
    assert use[2] == "ssh 10.0.0.3 bash -s 2 <train.sh"


def test_an_address_of_the_inventory_is_one_word_of_the_script() -> None:
    hosts = (Host("n1", "$(touch${IFS}x)"), Host("n2", "10.0.0.2"))
    assert "--master-addr='$(touch${IFS}x)' --master-port=29500" in torchrun_script(plan(hosts=hosts)).text


def test_no_character_of_the_inventory_ends_a_comment() -> None:
    assert len("\n".join(comments(["a\nrm -rf x\r\x85y"])).splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("train.py",), "train"),
        (("src/My_Train.v2.py",), "my-train-v2"),
        (("-m", "package.train"), "train"),
        (("./run.sh",), "run"),
        (("__.py",), "job"),
        (("x" * 90 + ".py",), "x" * 40),
    ],
)
def test_the_label_of_a_job_is_a_dns_label(command: tuple[str, ...], name: str) -> None:
    assert job_label(plan(*command)) == name
