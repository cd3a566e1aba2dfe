"""Every release that the roles are for, from a fresh image to a run; `make test-releases` selects them."""

import os
from collections.abc import Callable

import pytest

from lab.images import image, tools
from lab.images.releases import RELEASES
from lab.lab import Lab
from pylaunch.errors import ExitCode, LabError
from tests.roles.conftest import site

SELECTED = os.environ.get("PYLAUNCH_TEST_RELEASES", "").split()


@pytest.fixture(scope="module", params=RELEASES)
def nodes(request: pytest.FixtureRequest, fresh_lab: Callable[..., Lab]) -> Lab:
    """Two nodes of one release."""
    if request.param not in SELECTED:
        pytest.skip(f"{request.param} is not in PYLAUNCH_TEST_RELEASES: make test-releases")
    tools.ensure(lambda line: None)
    try:
        image.ready_image(lambda line: None, request.param)
    except LabError as error:
        pytest.skip(f"no image of {request.param} can be built here: {error.message} {' '.join(error.evidence)}")
    made = fresh_lab(2, release=request.param)
    assert f"VERSION_CODENAME={request.param}" in made["n1"].read("/etc/os-release")
    return made


def test_a_release_is_provisioned_verified_and_runs(nodes: Lab) -> None:
    inventory = ("-i", str(nodes.inventory))
    first = nodes.pylaunch("provision", *inventory)
    assert first.ok, first.stderr
    again = site(nodes)
    assert again.ok, again.failures
    changed = [
        (host, name) for host, all_ in again.returned.items() for name, each in all_.items() if each.get("changed")
    ]
    assert changed == []
    assert "2 hosts: nothing to change" in nodes.pylaunch("provision", *inventory).stderr
    verified = nodes.pylaunch("verify", *inventory)
    assert verified.returncode == ExitCode.DONE, verified.stdout
    run = nodes.pylaunch("start", *inventory, "--framework", "command", "--workdir", "/", "--", "sh", "-c", "echo up")
    assert run.ok, run.stderr
    assert sorted(run.stdout.splitlines()) == ["n1:0 | up", "n2:1 | up"]
    taken_back = nodes.pylaunch("provision", *inventory, "--reset", "--yes")
    assert taken_back.ok, taken_back.stderr
    assert nodes["n1"].run("find", "/etc", "-name", "*pylaunch*").stdout == ""
