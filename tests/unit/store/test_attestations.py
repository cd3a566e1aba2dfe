from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.attestation import Attestation, HostRecord
from pylaunch.store import attestations


def made(at: str) -> Attestation:
    return Attestation(at, "0.1.0", {"n1": HostRecord({"system": {"kernel": at}})})


def test_the_latest_is_the_newest_of_all_hosts(tmp_path: Path) -> None:
    inventory = tmp_path / "cluster.ini"
    assert attestations.latest(inventory) is None
    whole, part = made("2026-01-02T00:00:00Z"), made("2026-01-03T00:00:00Z")
    attestations.keep(inventory, made("2026-01-01T00:00:00Z"), of_all_hosts=True)
    attestations.keep(inventory, whole, of_all_hosts=True)
    kept = attestations.keep(inventory, part, of_all_hosts=False)
    assert attestations.latest(inventory) == whole
    assert attestations.read(kept) == part
    assert kept.name == f"20260103T000000Z-{part.digest[:12]}.json"


def test_a_file_that_is_no_attestation_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("no json")
    for name in ("x.json", "missing.json"):
        with pytest.raises(UsageError, match=name):
            attestations.read(tmp_path / name)
