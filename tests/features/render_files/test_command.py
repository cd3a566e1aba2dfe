"""`pylaunch render`: files on stdout or in a directory, and input that it refuses."""

import stat
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.features.render_files import command as render_command
from pylaunch.model.cluster import Cluster, Host
from tests.json_pages import documented

CLUSTER = Cluster((Host("n1", "10.0.0.1", devices=(0, 1)), Host("n2", "10.0.0.2", devices=(0, 1))))
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(render_command, "load_cluster", lambda inventory, limit: CLUSTER)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch.distributed\n")
    return tmp_path


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def refused(capsys: Captured, *words: str) -> str:
    assert run(["render", *words]) == ExitCode.USAGE
    return capsys.readouterr().err


def test_one_file_is_printed_as_it_is(capsys: Captured) -> None:
    assert run(["render", "slurm", "--partition", "gpu", "--sbatch-arg=--mem=0", "--", "train.py"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert out.startswith("#!/usr/bin/env bash\n")
    assert "#SBATCH --partition=gpu\n#SBATCH --mem=0\n" in out


def test_a_container_of_the_project_is_in_no_file_and_a_note_says_so(directory: Path, capsys: Captured) -> None:
    words = ["render", "slurm", "--", "train.py"]
    assert run(words) == ExitCode.DONE
    bare = capsys.readouterr().out
    (directory / "pylaunch.toml").write_text('[container]\nimage = "/torch.sqsh"\n')
    assert run(words) == ExitCode.DONE
    shown = capsys.readouterr()
    assert shown.out == bare
    assert shown.err.startswith("note: pylaunch.toml: [container] is for pylaunch start;")


def test_files_are_written_for_the_user_alone(directory: Path, capsys: Captured) -> None:
    assert run(["render", "torchrun", "--output", "made/here", "--", "train.py"]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [f"made/here/{name}" for name in ("torchrun-n1.sh", "torchrun-n2.sh")]
    assert "use: ssh 10.0.0.1 bash -s <torchrun-n1.sh" in captured.err
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (directory / "made/here").iterdir()}
    assert modes == {0o600}


def test_nothing_is_replaced_without_force(directory: Path, capsys: Captured) -> None:
    words = ("torchrun", "--output", ".", "--", "train.py")
    (directory / "torchrun-n1.sh").write_text("mine\n")
    error = refused(capsys, *words)
    assert "error: .: torchrun-n1.sh exists already" in error
    assert "--force replaces them" in error
    assert names(directory) == ["torchrun-n1.sh", "train.py"]
    assert run(["render", words[0], "--force", *words[1:]]) == ExitCode.DONE
    assert (directory / "torchrun-n1.sh").read_text().startswith("#!/usr/bin/env bash")
    assert names(directory) == ["torchrun-n1.sh", "torchrun-n2.sh", "train.py"]


def test_force_replaces_a_link_and_not_the_file_behind_it(directory: Path) -> None:
    (directory / "precious").write_text("mine\n")
    (directory / "train.sbatch").symlink_to("precious")
    assert run(["render", "slurm", "--output", ".", "--force", "--", "train.py"]) == ExitCode.DONE
    assert (directory / "precious").read_text() == "mine\n"
    assert not (directory / "train.sbatch").is_symlink()


def test_secrets_are_left_out_and_listed(directory: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_value")
    words = ("--secret", "HF_TOKEN", "--env", "WANDB_API_KEY=wandb_value", "--output", "files", "--", "train.py")
    for target in ("slurm", "torchrun"):
        assert run(["render", target, "--force", *words]) == ExitCode.DONE
        assert "left out, because they are secret: HF_TOKEN, WANDB_API_KEY" in capsys.readouterr().err
    written = "".join(path.read_text() for path in (directory / "files").iterdir())
    assert "HF_TOKEN" in written
    assert "hf_value" not in written
    assert "wandb_value" not in written


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


def test_an_unknown_target_lists_the_targets(capsys: Captured) -> None:
    error = refused(capsys, "slum", "--", "train.py")
    assert "no such command: pylaunch render slum" in error
    assert "did you mean pylaunch render slurm?" in error
    error = refused(capsys, "nomad", "--", "train.py")
    assert "targets: slurm, torchrun" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("slurm",), "nothing to run"),
        (("slurm", "job.toml"), "job.toml: slurm starts one program, not the roles of a job file"),
        (("torchrun", "--", "hostname"), "torchrun starts Python scripts, and hostname does not end in .py"),
        (("slurm", "--force", "--", "train.py"), "--force has no effect without --output"),
        (("slurm", "--sbatch-arg=--gres=gpu:8", "--", "train.py"), "--sbatch-arg --gres=gpu:8: the plan decides it"),
        (("slurm", "--partition", "a b", "--", "train.py"), "--partition=a b: expected one word without quotes"),
        (("slurm", "--time", "x\n#SBATCH --wrap=y", "--", "train.py"), "expected one word without quotes"),
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
    assert "--nnodes=2 --node-rank=1 --nproc-per-node=1" in capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("--output", "files")])
def test_the_document_is_as_described(words: tuple[str, ...], capsys: Captured) -> None:
    assert run(["render", "torchrun", "--json", *words, "--", "train.py"]) == ExitCode.DONE
    document = documented(capsys.readouterr().out, "pylaunch render")
    assert [each["name"] for each in document["files"]] == ["torchrun-n1.sh", "torchrun-n2.sh"]
    assert document["directory"] == (words[1] if words else None)
