"""`pylaunch render`: a script on stdout, and input that it refuses."""

from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.features.render_files import command as render_command
from pylaunch.model.cluster import Cluster, Host

CLUSTER = Cluster((Host("n1", "10.0.0.1", devices=(0, 1)), Host("n2", "10.0.0.2", devices=(0, 1))))
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(render_command, "load_cluster", lambda inventory, limit: CLUSTER)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch.distributed\n")
    return tmp_path


def refused(capsys: Captured, *words: str) -> str:
    assert run(["render", *words]) == ExitCode.USAGE
    return capsys.readouterr().err


def test_the_script_is_printed_and_how_to_use_it(capsys: Captured) -> None:
    assert run(["render", "slurm", "--", "train.py"]) == ExitCode.DONE
    shown = capsys.readouterr()
    assert shown.out.startswith("#!/usr/bin/env bash\n")
    assert shown.err == "use: sbatch train.sbatch\n"


@pytest.mark.parametrize("target", ["slurm", "torchrun"])
def test_secrets_are_left_out_and_listed(target: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_value")
    words = ("--secret", "HF_TOKEN", "--env", "WANDB_API_KEY=wandb_value", "--", "train.py")
    assert run(["render", target, *words]) == ExitCode.DONE
    shown = capsys.readouterr()
    assert "left out, because they are secret: HF_TOKEN, WANDB_API_KEY" in shown.err
    assert "HF_TOKEN" in shown.out
    assert "hf_value" not in shown.out
    assert "wandb_value" not in shown.out


@pytest.mark.parametrize(
    "words",
    [
        ("--", "train.py", "--hf_token", "hf_abc"),
        ("--", "train.py", "--api-key=abc"),
        ("--env", "HTTPS_PROXY=http://me:word@proxy:3128", "--", "train.py"),
        ("--", "train.py", "s3://me:word@store/data"),
    ],
)
def test_a_secret_on_the_command_line_is_refused_without_its_value(words: tuple[str, ...], capsys: Captured) -> None:
    error = refused(capsys, "slurm", *words)
    assert "the files would contain it" in error
    assert "--secret" in error
    assert "hf_abc" not in error
    assert "word" not in error.replace("password", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("slurm",), "nothing to run"),
        (("slurm", "job.toml"), "job.toml: slurm starts one program, not the roles of a job file"),
        (("torchrun", "--", "hostname"), "torchrun starts Python scripts, and hostname does not end in .py"),
        (
            ("slurm", "--framework", "torchrun", "--", "train.py"),
            "slurm starts one task for each rank, and no torchrun",
        ),
        (("slurm", "--nodes", "3", "--", "train.py"), "--nodes 3: the inventory has 2 hosts"),
    ],
)
def test_bad_input_is_one_clear_line(words: tuple[str, ...], message: str, capsys: Captured) -> None:
    error = refused(capsys, *words)
    assert message in error
    assert error.count("error:") == 1
    assert "Traceback" not in error


def test_the_line_of_another_launcher_is_taken_apart(capsys: Captured) -> None:
    assert run(["render", "torchrun", "--", "torchrun", "--nproc-per-node=1", "train.py", "--lr", "3"]) == ExitCode.DONE
    assert "    ranks=1\n" in capsys.readouterr().out
