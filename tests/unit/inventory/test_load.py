"""Loading without Ansible: the search for the inventory, this machine alone, and limits."""

import json
import re
from pathlib import Path

import pytest

from pylaunch.errors import InventoryError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import this_machine
from pylaunch.model.cluster import Connection


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "a project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def test_without_an_inventory_this_machine_is_the_cluster() -> None:
    cluster = load_cluster(None)

    [host] = cluster.hosts
    assert (host.connection, host.address) == (Connection.LOCAL, "127.0.0.1")
    assert Path(host.rank_python).exists()
    assert (cluster.sources, cluster.known_hosts) == ((), None)


def test_this_machine_has_the_accelerators_that_have_device_files(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()

    assert this_machine(tmp_path).devices == (0, 1)


def test_a_missing_inventory_is_named_with_a_similar_file(working_directory: Path) -> None:
    (working_directory / "cluster.ini").touch()

    with pytest.raises(InventoryError) as caught:
        load_cluster(working_directory / "clutser.ini")

    assert caught.value.hint == f"did you mean {working_directory / 'cluster.ini'}?"


def test_the_inventory_named_in_pylaunch_toml_starts_at_its_directory(working_directory: Path) -> None:
    (working_directory / "pylaunch.toml").write_text('inventory = "clusters/a.ini"\n')

    with pytest.raises(InventoryError, match=f"{working_directory}/clusters/a.ini"):
        load_cluster(None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "pylaunch.toml: cannot be read: Is a directory"),
        ("inventory = \n", "at line 1"),
        ('inventory = "a"\ninventry = "b"\n', "unknown field `inventry`"),
        ("inventory = 3\n", re.escape("Expected `str | null`, got `int` - at `$.inventory`")),
        ('inventory = "~nobody.here/a"\n', "home directory"),
        ("env = 3\n", re.escape("Expected `object`, got `int` - at `$.env`")),
        ('[env]\nnames = "a"\n', re.escape("unknown field `names` - at `$.env`")),
        *(
            (f"[env]\nname = {json.dumps(name)}\n", re.escape("at `$.env.name`"))
            for name in ("../x", "a/b", "", ".hidden", "-x", "a b", "a\n", "é", "a" * 65, 3)
        ),
    ],
)
def test_a_wrong_pylaunch_toml_is_refused_with_what_is_wrong(
    working_directory: Path, text: str, complaint: str
) -> None:
    file = working_directory / "pylaunch.toml"
    file.write_text(text) if text else file.mkdir()

    with pytest.raises(UsageError, match=complaint):
        load_cluster(None)


@pytest.mark.parametrize("text", ["gpu01,root@gpu02", "gpu01,-oProxyCommand=x", "gpu01,a b", ",", "gpu[2-1],", "a;b,"])
def test_a_host_list_with_an_invalid_name_is_refused(text: str) -> None:
    with pytest.raises(InventoryError, match="the host list"):
        load_cluster(Path(text))


def test_one_host_without_its_comma_is_taken_for_a_file_with_a_hint(working_directory: Path) -> None:
    with pytest.raises(InventoryError) as caught:
        load_cluster(Path("gpu01"))

    assert "-H gpu01,gpu02" in str(caught.value.hint)
