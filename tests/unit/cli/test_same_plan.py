"""`check` and `start` plan the same job from the same words."""

from pathlib import Path

import pytest

from pylaunch.cli import main
from pylaunch.cli.commands.prepare import check
from pylaunch.cli.commands.run import start
from pylaunch.errors import ExitCode, UsageError
from pylaunch.model.job import JobSpec


@pytest.mark.parametrize(
    "words",
    [
        ("--", "train.py", "--lr", "3"),
        ("--nproc-per-node", "2", "--port", "4711", "--env", "A=1", "-m", "pkg.train"),
        ("--sync", ".", "--", "jaxed.py"),
        ("--", "torchrun", "--nproc_per_node=2", "--max-restarts=1", "train.py"),
        ("--", "hostname"),
        ("--framework", "torchrun", "--interface", "eth1", "--", "train.py"),
    ],
)
def test_check_and_start_plan_the_same_job(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch.distributed")
    (tmp_path / "jaxed.py").write_text("import jax")
    jobs: list[JobSpec] = []

    def planned(_: object, job: JobSpec, *__: object) -> None:
        jobs.append(job)
        raise UsageError("planned")

    monkeypatch.setattr(check, "check", planned)
    monkeypatch.setattr(start, "plan_start", planned)
    assert {main.run(["check", *words]), main.run(["start", *words])} == {ExitCode.USAGE}
    assert len(jobs) == 2
    assert jobs[0] == jobs[1]
