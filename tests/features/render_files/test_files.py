import re
from dataclasses import replace

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.render_files.files import Target, render_files
from pylaunch.features.render_files.files.shell import comments, file_stem, job_label
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import PORT_ENTRY, RunPlan, plan_run
from tests.features.render_files.samples import SAMPLES, rendered

TWO = (Host("n1", "10.0.0.1", devices=(0, 1)), Host("n2", "10.0.0.2", devices=(0,)))


def plan(
    *command: str, hosts: tuple[Host, ...] = TWO, framework: Framework = Framework.DIRECT, **job: object
) -> RunPlan:
    spec = JobSpec(command or ("train.py",), framework, "/home/ml", **job)  # type: ignore[arg-type]
    return plan_run(Cluster(hosts), spec, "train")


def text(made: RunPlan, target: Target, name: str) -> str:
    found = render_files(made, target)
    return next(file.text for file in found.files if file.name == name)


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("sample", SAMPLES)
def test_files_have_names_of_their_own_and_no_placeholder_of_pylaunch(sample: str, target: Target) -> None:
    files = rendered(sample, target).files
    assert len({file.name for file in files}) == len(files)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", file.name) for file in files)
    assert [file.name for file in files if PORT_ENTRY in file.text] == []


@pytest.mark.parametrize("target", Target)
def test_a_secret_is_named_and_has_no_value(target: Target) -> None:
    found = rendered("even", target)
    assert "HF_TOKEN" in "\n".join(file.text for file in found.files)
    assert not [file.name for file in found.files if re.search(r"HF_TOKEN=(?!\"\$HF_TOKEN)\S", file.text)]


def test_nodes_with_different_interpreters_are_refused_where_one_command_starts_all() -> None:
    hosts = (TWO[0], replace(TWO[1], python="/usr/bin/python3"))
    with pytest.raises(UsageError, match="different interpreters") as refused:
        render_files(plan(hosts=hosts), Target.SLURM)
    assert refused.value.evidence == ("n1: /opt/pylaunch/current/bin/python", "n2: /usr/bin/python3")


def test_slurm_derives_the_port_from_the_job_unless_a_flag_names_it() -> None:
    assert "$((61440 + SLURM_JOB_ID % 4096))" in text(plan(), Target.SLURM, "train.sbatch")
    assert "export MASTER_PORT=4000" in text(plan(rendezvous_port=4000), Target.SLURM, "train.sbatch")


def test_torchrun_under_slurm_is_one_task_on_each_node() -> None:
    script = text(plan(framework=Framework.TORCHRUN), Target.SLURM, "train.sbatch")
    assert re.findall(r"--ntasks-per-node=(\d)", script) == ["1", "1"]
    assert "((SLURM_PROCID < 1)) || ranks=1" in script


def test_a_name_that_no_file_can_have_becomes_the_node_rank() -> None:
    made = plan(hosts=(Host("../n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
    assert [file_stem(node) for node in made.nodes] == ["_node0", "n2"]


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
