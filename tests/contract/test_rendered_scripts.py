"""Contract of bash, sh and shellcheck with scripts of `pylaunch render`."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from pylaunch.features.render_files.scripts import torchrun_script
from pylaunch.model.job import Framework
from tests.features.render_files.samples import SCRIPTS, planned, rendered

ENDS_S = 60


def words(*argv: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=cwd, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, timeout=ENDS_S
    )  # fmt: skip


def test_scripts_are_accepted_by_shellcheck(tmp_path: Path) -> None:
    names = [f"{sample}-{target}.sh" for sample, target in SCRIPTS]
    for name, (sample, target) in zip(names, SCRIPTS, strict=True):
        (tmp_path / name).write_text(rendered(sample, target))
    shellcheck = str(Path(sys.executable).parent / "shellcheck")
    # SC2016 asks if $ in single quotes, which arguments of the user contain, should be expanded.
    checked = words(shellcheck, "--exclude=SC2016", *names, cwd=tmp_path)
    assert checked.stdout == ""
    assert checked.returncode == 0


def test_a_missing_secret_ends_the_script_with_its_name(tmp_path: Path) -> None:
    plan = planned("even", Framework.TORCHRUN)
    plan = replace(plan, job=replace(plan.job, workdir=str(tmp_path), python="/bin/echo"))
    (tmp_path / "start.sh").write_text(torchrun_script(plan).text)
    without = words("bash", "start.sh", "0", cwd=tmp_path)
    assert without.returncode != 0
    assert "HF_TOKEN: is a secret of this job: export it first" in without.stderr
    given = words("bash", "start.sh", "0", cwd=tmp_path, HF_TOKEN="x")
    assert given.stdout.startswith("-m torch.distributed.run --nnodes=2 --node-rank=0 --nproc-per-node=4 ")
