"""Contract with ansible-inventory, from inventory files to a Cluster."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode, InventoryError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.inventory.keys import KEYS
from pylaunch.transport import process
from tests.unit.inventory.test_cases import cases

ANSIBLE = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "inventory" / "cluster.ini"
EXAMPLE_IN_YAML = ROOT / "inventory" / "cluster.yml"


def written(files: dict[str, str], directory: Path) -> Path:
    for name, text in files.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    return directory


@pytest.mark.parametrize("case", cases("inventories"))
def test_ansible_still_answers_as_recorded(case: dict[str, Any], tmp_path: Path) -> None:
    inventory = written(case["files"], tmp_path) / case["inventory"]

    if case["complaints"]:
        with pytest.raises(InventoryError) as caught:
            load_cluster(inventory)
        assert list(caught.value.evidence) == case["complaints"]
    else:
        assert list(load_cluster(inventory).names) == case["hosts"]


@pytest.mark.parametrize("case", cases("inventory_refusals"))
def test_ansible_still_refuses_as_recorded(case: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InventoryError) as caught:
        load_cluster(written(case["files"], tmp_path) / case["inventory"])

    assert list(caught.value.evidence) == case["evidence"]
    assert caught.value.exit_code == ExitCode.USAGE


def test_the_example_uses_every_key_and_no_other() -> None:
    answer = process.run((str(ANSIBLE / "ansible-inventory"), "-i", str(EXAMPLE), "--list")).checked()
    variables = json.loads(answer.stdout)["_meta"]["hostvars"].values()

    assert {key for values in variables for key in values} == set(KEYS)


def test_the_example_says_the_same_in_ini_and_in_yaml() -> None:
    assert load_cluster(EXAMPLE).hosts == load_cluster(EXAMPLE_IN_YAML).hosts


def test_the_reference_has_a_row_for_every_key_and_no_other() -> None:
    rows = [line for line in (ROOT / "docs/reference/inventory.md").read_text().splitlines() if line.startswith("| `")]

    assert [row.split("`")[1] for row in rows] == list(KEYS)


def test_the_cluster_knows_its_source_and_its_known_hosts(tmp_path: Path) -> None:
    (tmp_path / "cluster.ini").write_text("[cluster]\nn1\n")

    cluster = load_cluster(tmp_path / "cluster.ini")

    assert cluster.sources == (str(tmp_path / "cluster.ini"),)
    assert cluster.known_hosts == str(tmp_path / ".pylaunch" / "known_hosts")


def test_cluster_ini_in_the_working_directory_is_used_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cluster.ini").write_text("[cluster]\nn[1:3]\n[odd]\nn1\nn3\n")
    monkeypatch.chdir(tmp_path)

    assert load_cluster(None, limit="odd").names == ("n1", "n3")


@pytest.mark.parametrize("text", ["", "[cluster]\n", "[cluster]\n[storage]\nnfs1\n"])
def test_an_inventory_without_a_host_for_the_cluster_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.ini").write_text(text)

    with pytest.raises(InventoryError, match="has no hosts"):
        load_cluster(tmp_path / "cluster.ini")


def test_a_vaulted_file_is_read_with_the_password_ansible_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster.ini").write_text("[cluster]\nn1\n")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("ansible_user: secret-name\n")
    (tmp_path / "password").write_text("swordfish\n")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(tmp_path / "password"))
    process.run((str(ANSIBLE / "ansible-vault"), "encrypt", str(tmp_path / "group_vars" / "all.yml"))).checked()

    assert load_cluster(tmp_path / "cluster.ini")["n1"].ssh.user == "secret-name"

    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE")
    with pytest.raises(UsageError) as caught:
        load_cluster(tmp_path / "cluster.ini")
    assert "ANSIBLE_VAULT_PASSWORD_FILE" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("cluster:\n  hosts:\n    n1:\n  hots:\n    n2:\n", "hots"),
        ("cluster:\n  hosts:\n    n1: {gpus: 8}\n    n1: {gpus: 4}\n", "cluster.yml:4: duplicate mapping key 'n1'"),
    ],
)
def test_what_ansible_would_read_past_stops_the_load(text: str, lost: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.yml").write_text(text)

    with pytest.raises(InventoryError) as caught:
        load_cluster(tmp_path / "cluster.yml")

    assert any(lost in line for line in caught.value.evidence)
