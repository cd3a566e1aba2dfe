"""`pylaunch drift` and `pylaunch attest` on provisioned nodes, and what a start makes of nodes that differ."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from pylaunch.features.lab.cluster.lab import Lab
from tests.roles.conftest import Provisioned

LIMITS = "/etc/security/limits.d/90-pylaunch.conf"
SITE_PACKAGES = "/opt/pylaunch/current/lib/python3.11/site-packages"


def oddities(lab: Lab) -> dict[tuple[str, tuple[str, ...]], dict[str, str]]:
    """(fact, hosts) → cause → what was expected."""
    report = lab.pylaunch("drift", "-i", str(lab.inventory), "--json")
    assert report.ok, report.stderr
    found: list[dict[str, Any]] = json.loads(report.stdout)["oddities"]
    return {
        (each["fact"], tuple(each["hosts"])): {why["cause"]: why["text"] or "" for why in each["why"]} for each in found
    }


def attest(lab: Lab, *more: str) -> str:
    made = lab.pylaunch("attest", "-i", str(lab.inventory), *more)
    assert made.ok, made.stderr
    return made.stdout


@pytest.fixture
def unattested(provisioned: Provisioned) -> Iterator[Lab]:
    """No attestation before, and none afterwards."""
    directory = provisioned.lab.inventory.parent / ".pylaunch" / "attestations"
    for file in directory.glob("*"):
        file.unlink()
    yield provisioned.lab
    for file in directory.glob("*"):
        file.unlink()


@pytest.fixture
def another_package(provisioned: Provisioned) -> Iterator[None]:
    """n2 has another version of a package than the others: its record says so, which is all that any tool reads."""
    node = provisioned.lab["n2"]
    node.run("cp", "/var/lib/dpkg/status", "/root/status")
    node.run("sed", "-i", "/^Package: nftables$/,/^$/s/^Version: .*/Version: 9.9-1/", "/var/lib/dpkg/status")
    yield
    node.run("cp", "/root/status", "/var/lib/dpkg/status")


@pytest.fixture
def edited_file(provisioned: Provisioned) -> Iterator[None]:
    """Somebody edited one of our files on n3."""
    node = provisioned.lab["n3"]
    before = node.read(LIMITS)
    node.run("sh", "-c", f"echo '# mine' >> {LIMITS}")
    yield
    node.run("sh", "-c", f"cat > {LIMITS}", stdin=before.encode())


@pytest.fixture
def another_environment(provisioned: Provisioned) -> Iterator[None]:
    """n2 has one distribution less than the others."""
    node = provisioned.lab["n2"]
    node.run("sh", "-c", f"mv {SITE_PACKAGES}/six-1.17.0.dist-info /root/")
    yield
    node.run("mv", "/root/six-1.17.0.dist-info", SITE_PACKAGES)


def test_provisioned_nodes_do_not_differ_in_anything(unattested: Lab) -> None:
    assert oddities(unattested) == {}


def test_a_package_of_another_version_is_seen_by_comparison_on_the_right_host(
    unattested: Lab, another_package: None
) -> None:
    assert oddities(unattested) == {("package nftables", ("n2",)): {"cluster": ""}}


def test_a_file_edited_by_hand_is_explained_by_configuration(unattested: Lab, edited_file: None) -> None:
    assert oddities(unattested) == {(LIMITS, ("n3",)): {"configuration": "content differs"}}


def test_what_changes_after_the_attestation_is_explained_by_time(
    unattested: Lab, request: pytest.FixtureRequest
) -> None:
    attest(unattested)
    request.getfixturevalue("another_package")
    ((fact, hosts), why), *others = oddities(unattested).items()
    assert (fact, hosts, others) == ("package nftables", ("n2",), [])
    assert why["time"].startswith("was 1.0")


def test_equal_nodes_have_one_digest_and_unchanged_nodes_keep_theirs(unattested: Lab) -> None:
    first, again = attest(unattested), attest(unattested)
    assert first == again
    assert first.splitlines()[1].startswith("n[1-3] ")


def test_nodes_are_verified_against_a_record_and_a_changed_one_is_named(
    unattested: Lab, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    record = tmp_path / "record.json"
    attest(unattested, "-o", str(record))
    words = ("attest", "-i", str(unattested.inventory), "--verify", str(record))
    same = unattested.pylaunch(*words)
    assert same.ok
    assert "n[1-3]: as attested at" in same.stderr
    request.getfixturevalue("edited_file")
    changed = unattested.pylaunch(*words)
    assert changed.returncode == ExitCode.CLUSTER_NOT_READY
    assert "1 of 3 hosts are not as attested" in changed.stderr
    assert LIMITS in changed.stdout


def test_a_record_that_was_edited_is_refused(unattested: Lab, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    attest(unattested, "-o", str(record))
    record.write_text(record.read_text().replace("bookworm", "bullseye"))
    refused = unattested.pylaunch("attest", "-i", str(unattested.inventory), "--verify", str(record))
    assert refused.returncode == ExitCode.USAGE
    assert "was changed after it was sealed" in refused.stderr


def test_a_start_on_nodes_that_differ_warns_and_keeps_what_they_were(
    unattested: Lab, another_environment: None
) -> None:
    words = ("start", "-i", str(unattested.inventory), "--workdir", "/tmp", "--framework", "command", "--", "true")
    started = unattested.pylaunch(*words)
    assert started.ok, started.stderr
    assert "warn  n2: environment digest: " in started.stderr
    assert f"fix: pylaunch provision -i {unattested.inventory} --roles python_env --limit n2" in started.stderr
    (kept,) = Path(unattested.environment["XDG_STATE_HOME"]).glob("pylaunch/runs/*/attestation.json")
    digests = {host: body["digest"] for host, body in json.loads(kept.read_text())["hosts"].items()}
    assert digests["n1"] == digests["n3"] != digests["n2"]


def test_a_start_refuses_nodes_that_differ_where_the_inventory_says_so(
    unattested: Lab, another_environment: None, tmp_path: Path
) -> None:
    strict = tmp_path / "cluster.ini"
    strict.write_text(unattested.inventory.read_text() + "\n[cluster:vars]\npylaunch_attestation=refuse\n")
    (tmp_path / ".pylaunch").symlink_to(unattested.inventory.parent / ".pylaunch")
    words = ("start", "-i", str(strict), "--workdir", "/tmp", "--framework", "command", "--", "touch", "/tmp/started")
    refused = unattested.pylaunch(*words)
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY
    assert "hosts differ in what their ranks must share, so no rank was started" in refused.stderr
    assert all(node.run("test", "-e", "/tmp/started", check=False).returncode == 1 for node in unattested)
