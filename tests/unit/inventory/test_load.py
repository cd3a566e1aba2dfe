"""What needs no Ansible: where the inventory is looked for, this machine alone, and limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylaunch.errors import InventoryError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import _limited, this_machine
from pylaunch.model.cluster import Cluster, Connection, Host

CLUSTER = Cluster(tuple(Host(f"gpu{number:02d}", f"10.0.0.{number}") for number in range(1, 11)))
GROUPS = {"all": ("nfs1", *CLUSTER.names), "cluster": CLUSTER.names, "rack1": ("gpu10", "gpu02"), "storage": ("nfs1",)}


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


def test_a_missing_inventory_is_named_with_the_file_that_was_meant(working_directory: Path) -> None:
    (working_directory / "cluster.ini").touch()

    with pytest.raises(InventoryError) as caught:
        load_cluster(working_directory / "clutser.ini")

    assert caught.value.hint == f"did you mean {working_directory / 'cluster.ini'}?"


def test_an_empty_directory_is_no_inventory(tmp_path: Path) -> None:
    (tmp_path / "hosts.d").mkdir()

    with pytest.raises(InventoryError, match="directory is empty"):
        load_cluster(tmp_path / "hosts.d")


def test_the_inventory_named_in_pylaunch_toml_starts_at_its_directory(working_directory: Path) -> None:
    (working_directory / "pylaunch.toml").write_text('inventory = "clusters/a.ini"\n')

    with pytest.raises(InventoryError, match=f"{working_directory}/clusters/a.ini"):
        load_cluster(None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("inventory = \n", "at line 1"),
        ('inventory = "a"\ninventry = "b"\n', "unknown key: inventry"),
        ("inventory = 3\n", "expected a path, got 3"),
    ],
)
def test_a_wrong_pylaunch_toml_is_refused_with_what_is_wrong(
    working_directory: Path, text: str, complaint: str
) -> None:
    (working_directory / "pylaunch.toml").write_text(text)

    with pytest.raises(UsageError, match=complaint):
        load_cluster(None)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("gpu[08-10]", ("gpu08", "gpu09", "gpu10")),
        ("gpu10,gpu01", ("gpu01", "gpu10")),
        ("rack1", ("gpu02", "gpu10")),
        ("rack1,gpu05", ("gpu02", "gpu05", "gpu10")),
        ("all", CLUSTER.names),
    ],
)
def test_a_limit_takes_hosts_and_groups_in_rank_order(limit: str, expected: tuple[str, ...]) -> None:
    assert _limited(CLUSTER, limit, GROUPS).names == expected


@pytest.mark.parametrize(
    ("limit", "message", "hint"),
    [
        ("gpu[09-12]", "not in the cluster: gpu[11-12]", "did you mean gpu10 or gpu01"),
        ("rak1", "not in the cluster: rak1", "did you mean rack1?"),
        ("storage", "not in the cluster: storage", "the cluster is gpu[01-10]"),
        ("xyz", "not in the cluster: xyz", "the cluster is gpu[01-10]"),
        ("gpu[3-1]", "counts down", "hosts and groups, with ranges"),
        (",", "no host is named", "the cluster is gpu[01-10]"),
    ],
)
def test_a_limit_that_cannot_be_obeyed_is_told_with_what_was_meant(limit: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        _limited(CLUSTER, limit, GROUPS)

    assert message in caught.value.message
    assert hint in str(caught.value.hint)
