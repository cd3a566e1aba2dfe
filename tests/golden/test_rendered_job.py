"""The script of a job file for sbatch, as it is. To accept a new one: UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.features.job import rendering
from pylaunch.model.cluster import Cluster, Host
from tests.contract.test_rendered_job import JOB

GOLDEN = Path(__file__).parent / "job.sbatch"


def test_the_script_is_as_it_was_and_accepted_by_shellcheck(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = tuple(Host(f"n{each}", f"10.0.0.{each}", devices=(0, 1), python="/venv/bin/python") for each in range(4))
    monkeypatch.setattr(rendering, "load_cluster", lambda inventory, limit: Cluster(hosts))
    (tmp_path / "job.toml").write_text(JOB)
    options = ("--partition", "gpu", "--time", "4:00:00", "--workdir", "/home/ml/my project")
    run(["render", "slurm", *options, str(tmp_path / "job.toml"), "--set", "server.max-restarts=3"])
    text = capsys.readouterr().out
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    for checker in (("bash", "-n"), (str(Path(sys.executable).parent / "shellcheck"),)):
        checked = subprocess.run((*checker, str(GOLDEN)), capture_output=True, text=True, timeout=60, check=False)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
