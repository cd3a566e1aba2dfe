"""The script of a job file for sbatch. tests/contract/test_rendered_job.py runs it."""

import json
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.features.job import rendering
from pylaunch.model.cluster import Cluster
from tests.contract.test_rendered_job import JOB, cluster, script, shell_job

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rendering, "load_cluster", lambda inventory, limit: cluster(0))


def test_a_text_with_signs_is_no_expression(capsys: Captured) -> None:
    text = script(capsys, shell_job(a="true\nready = 'output:server-ready #1'"))
    assert "grep -qF -e 'server-ready #1'" in text


def test_the_same_file_is_the_same_script(capsys: Captured) -> None:
    assert script(capsys, JOB) == script(capsys, JOB)


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        ("framework = 'ray'", "[roles.a] framework = 'ray': without pylaunch on the nodes", "pylaunch start"),
        ("hosts = 'n1'", "[roles.a] hosts = 'n1': Slurm chooses the nodes", "--constraint FEATURES"),
        ("ready = 'step:1'", "[roles.a] ready = 'step:1': without pylaunch on the nodes", "file:/shared/ready"),
        ("ready = 'output:up [0-9]'", "[roles.a] ready = 'output:up [0-9]': a script compares texts", "a plain text"),
        ("env = { hosts = 'evil' }", "[roles.a] hosts: the script has a variable of this name", "another name"),
        ("sync = '.'", "[roles.a] sync = '.': a script for Slurm ships no files", "workdir = DIR"),
        ("container = '/a.sqsh'", "[roles.a] container = '/a.sqsh': needs pylaunch on the nodes", "pylaunch start"),
        ("env = { URL = 'http://me:pw@host' }", "[roles.a] URL is a URL with a password", "--secret URL"),
    ],
)
def test_what_no_script_can_keep_is_refused(key: str, message: str, hint: str, capsys: Captured) -> None:
    Path("job.toml").write_text(shell_job(a=f"true\n{key}"))
    assert run(["render", "slurm", "job.toml"]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert message in shown
    assert hint in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("slurm", "--rank-order", "topology"), "--rank-order: not for a script of several roles"),
        (("slurm", "--nodes", "2"), "--nodes: not for a job of several roles"),
        (("torchrun",), "job.toml: torchrun starts one program, and not the roles of a job file"),
    ],
)
def test_flags_and_targets_of_one_program_are_refused(words: tuple[str, ...], message: str, capsys: Captured) -> None:
    Path("job.toml").write_text(JOB)
    assert run(["render", *words, "job.toml"]) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_hosts_with_different_numbers_of_devices_are_refused(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = (*cluster(0).hosts[:2], *cluster(8).hosts[2:])
    monkeypatch.setattr(rendering, "load_cluster", lambda inventory, limit: Cluster(hosts))
    Path("job.toml").write_text(JOB)
    assert run(["render", "slurm", "job.toml"]) == ExitCode.USAGE
    assert "different numbers of devices" in capsys.readouterr().err


def test_a_role_without_devices_hides_those_of_its_step(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "load_cluster", lambda inventory, limit: Cluster(cluster(8).hosts))
    hides = "  export CUDA_VISIBLE_DEVICES=\n"
    assert hides not in script(capsys, JOB)
    assert hides in script(capsys, JOB, "--set", "server.devices=false")


def test_options_that_need_pylaunch_on_the_nodes_are_named(capsys: Captured) -> None:
    text = script(capsys, JOB, "--set", "server.max-restarts=3", "--set", "trainer.max-restarts=3")
    assert "# Left out, because it needs pylaunch on the nodes: max-restarts = 3 of trainer, server\n" in text


def test_the_document_has_the_script_and_its_limits(capsys: Captured) -> None:
    made = json.loads(script(capsys, JOB, "--set", "server.max-restarts=3", options=("--json",)))
    assert [file["name"] for file in made["files"]] == ["job.sbatch"]
    assert any("max-restarts = 3 of server" in remark for remark in made["remarks"])
