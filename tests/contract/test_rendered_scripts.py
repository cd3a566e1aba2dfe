"""Contract of bash, sh and shellcheck with files of `pylaunch render`."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pylaunch.features.render_files.files import Target, render_files
from pylaunch.model.job import Framework
from tests.features.render_files.samples import SAMPLES, planned, rendered

ENDS_S = 60


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
    assert len(names) >= 2


def test_a_missing_secret_ends_the_script_with_its_name(tmp_path: Path) -> None:
    plan = planned("even", Framework.TORCHRUN)
    plan = replace(plan, job=replace(plan.job, workdir=str(tmp_path), python="/bin/echo"))
    (tmp_path / "start.sh").write_text(render_files(plan, Target.TORCHRUN).files[0].text)
    without = words("bash", "start.sh", cwd=tmp_path)
    assert without.returncode != 0
    assert "HF_TOKEN: is a secret of this job: export it first" in without.stderr
    given = words("bash", "start.sh", cwd=tmp_path, HF_TOKEN="x")
    assert given.stdout.startswith("-m torch.distributed.run --nnodes=2 --node-rank=0 --nproc-per-node=4 ")
