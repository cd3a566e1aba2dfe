"""A start on provisioned nodes that differ in what their ranks share."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.roles.conftest import Provisioned

SITE_PACKAGES = "/opt/pylaunch/current/lib/python3.11/site-packages"


@pytest.fixture
def another_environment(provisioned: Provisioned) -> Iterator[None]:
    """n2 has one distribution less than the others."""
    node = provisioned.lab["n2"]
    node.run("sh", "-c", f"mv {SITE_PACKAGES}/six-1.17.0.dist-info /root/")
    yield
    node.run("mv", "/root/six-1.17.0.dist-info", SITE_PACKAGES)


def test_a_start_on_nodes_that_differ_warns_and_keeps_what_they_were(
    provisioned: Provisioned, another_environment: None
) -> None:
    words = ("start", "-i", str(provisioned.lab.inventory), "--workdir", "/tmp", "--framework", "command", "--", "true")
    started = provisioned.lab.pylaunch(*words)
    assert started.ok, started.stderr
    assert "warn  n2: environment digest: " in started.stderr
    assert f"fix: pylaunch provision -i {provisioned.lab.inventory} --roles python_env --limit n2" in started.stderr
    (kept,) = Path(provisioned.lab.environment["XDG_STATE_HOME"]).glob("pylaunch/runs/*/essentials.json")
    essentials = json.loads(kept.read_text())
    assert essentials["n1"] == essentials["n3"] != essentials["n2"]
