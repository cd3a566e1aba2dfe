"""`pylaunch config show` names the source of each value that is in use."""

import json
from pathlib import Path

import pytest

from pylaunch.cli import main
from pylaunch.errors import ExitCode
from pylaunch.features.config.command import MOST_ROWS, SettingInUse, shortened, values_of_hosts
from pylaunch.inventory import load
from pylaunch.inventory.listing import Listing
from pylaunch.model.cluster import Host

INI = """\
[cluster]
gpu01 ansible_host=10.0.0.1 gpus=8
gpu02 ansible_host=10.0.0.2 gpus=8

[cluster:vars]
pylaunch_python=/opt/conda/bin/python
"""


def test_a_value_has_the_line_that_sets_it_and_an_unset_one_is_a_default() -> None:
    variables = {
        "gpu01": {"ansible_host": "10.0.0.1", "gpus": 8, "pylaunch_python": "/opt/conda/bin/python"},
        "gpu02": {"ansible_host": "10.0.0.2", "gpus": 8, "pylaunch_python": "/opt/conda/bin/python"},
    }
    hosts = [
        Host(name, f"10.0.0.{number}", python="/opt/conda/bin/python") for number, name in ((1, "gpu01"), (2, "gpu02"))
    ]
    found = values_of_hosts(hosts, variables, {"cluster.ini": INI})
    assert SettingInUse("ansible_host", "10.0.0.2", "cluster.ini:3", ("gpu02",)) in found
    assert SettingInUse("gpus", "8", "cluster.ini:2", ("gpu01",)) in found
    assert SettingInUse("pylaunch_python", "/opt/conda/bin/python", "cluster.ini:6", ("gpu01", "gpu02")) in found
    assert SettingInUse("pylaunch_attestation", "warn", "default", ("gpu01", "gpu02")) in found


def test_a_key_with_many_values_is_one_row() -> None:
    many = [
        SettingInUse("ansible_host", f"10.0.0.{n}", f"cluster.ini:{n}", (f"n{n}",)) for n in range(1, MOST_ROWS + 2)
    ]
    (row,) = shortened(many)
    assert (row.source, row.hosts) == ("cluster.ini", tuple(f"n{n}" for n in range(1, MOST_ROWS + 2)))
    assert shortened(many[:MOST_ROWS]) == many[:MOST_ROWS]


def test_without_an_inventory_it_is_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["config", "show"]) == ExitCode.DONE
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("inventory")]
    assert line.split()[1:] == ["this", "machine", "alone", "default"]


def rows_of(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}


def test_a_slurm_job_is_the_source_of_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["config", "show"]) == ExitCode.DONE
    assert "nodes" not in rows_of(capsys)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    assert main.run(["config", "show"]) == ExitCode.DONE
    assert "those of Slurm job 4711" in rows_of(capsys)["nodes"]


def test_ansible_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def ask(source: Path) -> Listing:
        asked.append(source)
        variables = {"gpu01": {"ansible_host": "10.0.0.1"}, "gpu02": {"ansible_host": "10.0.0.2"}}
        return Listing.parse(json.dumps({"_meta": {"hostvars": variables}, "all": {"hosts": [*variables]}}))

    monkeypatch.setattr(load, "_ask_ansible", ask)
    inventory = tmp_path / "cluster.ini"
    inventory.write_text(INI)
    assert main.run(["config", "show", "-i", str(inventory), "--limit", "gpu02"]) == ExitCode.DONE
    row = rows_of(capsys)["ansible_host"]
    assert "10.0.0.2" in row
    assert "cluster.ini:3" in row
    assert asked == [inventory]


def test_a_secret_in_a_variable_is_masked() -> None:
    variables = {"gpu01": {"ansible_ssh_common_args": "-o ProxyCommand='jump --password=hunter2 %h'"}}
    found = values_of_hosts([Host("gpu01", "gpu01")], variables, {})
    (value,) = [each.value for each in found if each.name == "ansible_ssh_common_args"]
    assert value.startswith("-o ProxyCommand='jump --password=***")
    assert "hunter2" not in value


def test_a_working_directory_that_was_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main.run(["config", "show"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "error: the working directory was removed\n\nhint: cd to one that exists\n"
