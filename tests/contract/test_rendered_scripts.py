"""Contract of bash, sh and shellcheck with files of `pylaunch render`."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pylaunch.features.render_files.files import Target, TargetOptions, render_files
from pylaunch.features.render_files.files.content import file_stem
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.render import render
from pylaunch.render.shell import ELASTIC
from tests.features.render_files.samples import AWKWARD, SAMPLES, planned, rendered

ENDS_S = 60
REPORT = """
import json, os, sys
os.write(1, json.dumps({"arguments": sys.argv[1:], "env": dict(os.environ)}).encode() + b"\\n")  # At once.
"""
FAILS = """
import os, sys, time
if os.environ["LOCAL_RANK"] == "1":
    sys.exit(7)
time.sleep(600)
"""


def words(*argv: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=cwd, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, timeout=ENDS_S
    )  # fmt: skip


@pytest.mark.parametrize("sample", SAMPLES)
def test_scripts_are_accepted_by_shellcheck(sample: str, tmp_path: Path) -> None:
    names = []
    for target in Target:
        for file in rendered(sample, target).files:
            if file.name.endswith((".sh", ".sbatch")):
                names.append(f"{target.value}-{file.name}")
                (tmp_path / names[-1]).write_text(file.text)
    shellcheck = str(Path(sys.executable).parent / "shellcheck")
    # SC2016 asks if $ in single quotes, which arguments of the user contain, should be expanded.
    checked = words(shellcheck, "--exclude=SC2016", *names, cwd=tmp_path)
    assert checked.stdout == ""
    assert checked.returncode == 0
    assert len(names) >= 6


@pytest.mark.parametrize("framework", [Framework.DIRECT, Framework.JAX, Framework.DEEPSPEED, Framework.ACCELERATE])
def test_a_sourced_file_sets_what_pylaunch_sets(framework: Framework, tmp_path: Path) -> None:
    hosts = (Host("n1", "10.0.0.1", devices=(0, 1)), Host("n2", "10.0.0.2", devices=(1, 3), interface="lo"))
    env = {"NOTE": 'it\'s "$x" `y`\n\\z', "EMPTY": ""}
    job = JobSpec(("train.py",), framework, str(tmp_path), env=env, rendezvous_port=4000)
    plan = plan_run(Cluster(hosts), job, "train")
    files = {file.name: file.text for file in render_files(plan, Target.ENV, TargetOptions()).files}
    show = f"exec '{sys.executable}' -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    for node, command in render(plan):
        (tmp_path / "env.sh").write_text(files[f"env-{file_stem(node)}.sh"])
        for rank in node.ranks:
            made = words("sh", "-c", f". ./env.sh; {show}", cwd=tmp_path, LOCAL_RANK=str(rank.local_rank))
            found = json.loads(made.stdout)
            expected = {**command.env, **command.ranks[rank.local_rank].env, "PATH": found["PATH"]}
            expected = {name: value for name, value in expected.items() if not name.startswith(ELASTIC)}
            assert {name: found.get(name) for name in expected} == expected
            assert found["PATH"].startswith("/opt/pylaunch/current/bin:")


def jax_script(directory: Path, program: str, *arguments: str) -> Path:
    """Write the script of a node with three ranks, whose program is `program`."""
    (directory / "train.py").write_text(program)
    host = Host("n1", "127.0.0.1", devices=(0, 1, 2), python=sys.executable)
    job = JobSpec(("train.py", *arguments), Framework.JAX, str(directory), rendezvous_port=4000)
    file = render_files(plan_run(Cluster((host,)), job, "train"), Target.JAX, TargetOptions()).files[0]
    path = directory / file.name
    path.write_text(file.text)
    return path


def test_a_script_of_a_node_starts_each_rank_with_its_numbers_and_arguments(tmp_path: Path) -> None:
    made = words("bash", str(jax_script(tmp_path, REPORT, *AWKWARD)), cwd=tmp_path)
    assert made.returncode == 0
    found = [json.loads(line) for line in made.stdout.splitlines()]
    assert sorted(each["env"]["OMPI_COMM_WORLD_RANK"] for each in found) == ["0", "1", "2"]
    assert {each["env"]["OMPI_MCA_orte_hnp_uri"] for each in found} == {"0.0;tcp://127.0.0.1:4000"}
    assert [each["arguments"] for each in found] == [list(AWKWARD)] * 3


def test_a_failed_rank_ends_the_script_with_its_status_and_the_other_ranks(tmp_path: Path) -> None:
    script = jax_script(tmp_path, FAILS)
    made = words("bash", str(script), cwd=tmp_path)  # Output ends when the last rank closes it.
    assert made.returncode == 7


def test_a_missing_secret_ends_the_script_with_its_name(tmp_path: Path) -> None:
    plan = planned("even", Framework.TORCHRUN)
    plan = replace(plan, job=replace(plan.job, workdir=str(tmp_path), python="/bin/echo"))
    (tmp_path / "start.sh").write_text(render_files(plan, Target.TORCHRUN, TargetOptions()).files[0].text)
    without = words("bash", "start.sh", cwd=tmp_path)
    assert without.returncode != 0
    assert "HF_TOKEN: is a secret of this job: export it first" in without.stderr
    given = words("bash", "start.sh", cwd=tmp_path, HF_TOKEN="x")
    assert given.stdout.startswith("-m torch.distributed.run --nnodes=2 --node-rank=0 --nproc-per-node=4 ")
