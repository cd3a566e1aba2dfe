"""Hosts of verbs without a feature that provides nodes."""

import json
from pathlib import Path

import pytest

from pylaunch import features
from pylaunch.cli import main
from pylaunch.cli.views.plan import inventory_line
from pylaunch.errors import ExitCode
from pylaunch.inventory import load
from pylaunch.inventory.cluster import Listing
from pylaunch.model.cluster import Cluster, Host

CLUSTER = Cluster((Host("n1", "10.0.0.1"),))
FILE = Path("cluster.ini")


def test_the_hosts_are_those_of_the_inventory_also_in_a_slurm_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_cluster(inventory: Path | None, *, limit: str | None) -> Cluster:
        asked.append((inventory, limit))
        return CLUSTER

    asked: list[tuple[Path | None, str | None]] = []
    monkeypatch.setattr(features, "load_cluster", load_cluster)
    monkeypatch.setattr(features, "FEATURES", ())
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert features.hosts_to_ask(FILE, "n1") == CLUSTER
    assert features.start_source({}, has_inventory=True) is None
    assert asked == [(FILE, "n1")]


@pytest.mark.parametrize("has_inventory", [False, True])
def test_a_start_without_an_inventory_says_where_it_runs(
    has_inventory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    if has_inventory:
        FILE.touch()
    monkeypatch.setattr(load, "listing_of", lambda _: Listing.parse('{"all": {"hosts": ["n1"]}}'))
    assert main.run(["start", "--dry-run", "--", "train.py"]) == ExitCode.DONE
    printed = capsys.readouterr()
    assert ("no inventory, so this machine alone" in printed.err) is not has_inventory
    origin = f"{tmp_path}/cluster.ini (from this directory)" if has_inventory else "none (this machine alone)"
    assert printed.out.endswith(f"\ninventory: {origin}\n")
    assert main.run(["start", "--dry-run", "--json", "--", "train.py"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["plan"]["world_size"] == 1


def test_a_plan_names_what_chose_its_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pylaunch.toml").write_text('inventory = "a.ini"\n')
    assert inventory_line(None) == f"inventory: {tmp_path}/a.ini (from pylaunch.toml)"
    assert inventory_line(Path("b.ini")) == f"inventory: {tmp_path}/b.ini (from -i)"
    assert inventory_line(Path("n1,n2,")) == "inventory: n1,n2, (from -H)"
