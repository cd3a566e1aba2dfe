"""Every release that the roles are for, from a fresh image to a run; `make test-releases` selects them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.images import image, tools
from lab.images.releases import RELEASES
from lab.lab import Lab
from pylaunch.errors import ExitCode, LabError
from pylaunch.transport.process import Completed
from tests.lab.slurm_jobs import PROJECT
from tests.roles.conftest import site

SELECTED = os.environ.get("PYLAUNCH_TEST_RELEASES", "").split()
NEWER = "trixie"
"""Its Python runs releases of ansible-core that the oldest supported Python cannot."""


def _two_nodes(release: str, make: Callable[..., Lab], share: tuple[Path, ...] = ()) -> Lab:
    if release not in SELECTED:
        pytest.skip(f"{release} is not in PYLAUNCH_TEST_RELEASES: make test-releases")
    tools.ensure(lambda line: None)
    try:
        image.ready_image(lambda line: None, release)
    except LabError as error:
        pytest.skip(f"no image of {release} can be built here: {error.message} {' '.join(error.evidence)}")
    made = make(2, release=release, share=share)
    assert f"VERSION_CODENAME={release}" in made["n1"].read("/etc/os-release")
    return made


@pytest.fixture(scope="module", params=RELEASES)
def nodes(request: pytest.FixtureRequest, fresh_lab: Callable[..., Lab]) -> Lab:
    """Two nodes of one release."""
    return _two_nodes(request.param, fresh_lab)


def test_a_release_is_provisioned_verified_and_runs(nodes: Lab) -> None:
    inventory = ("-i", str(nodes.inventory))
    first = nodes.pylaunch("provision", *inventory)
    assert first.ok, first.stderr
    again = site(nodes)
    assert again.ok, again.failures
    assert again.changes == ()
    assert "2 hosts: nothing to change" in nodes.pylaunch("provision", *inventory).stderr
    verified = nodes.pylaunch("verify", *inventory)
    assert verified.returncode == ExitCode.DONE, verified.stdout
    run = nodes.pylaunch("start", *inventory, "--framework", "command", "--workdir", "/", "--", "sh", "-c", "echo up")
    assert run.ok, run.stderr
    assert sorted(run.stdout.splitlines()) == ["n1:0 | up", "n2:1 | up"]
    taken_back = nodes.pylaunch("provision", *inventory, "--reset", "--yes")
    assert taken_back.ok, taken_back.stderr
    assert nodes["n1"].run("find", "/etc", "-name", "*pylaunch*").stdout == ""


def test_a_controller_with_the_newest_ansible_core_provisions(fresh_lab: Callable[..., Lab]) -> None:
    made = _two_nodes(NEWER, fresh_lab, (PROJECT,))
    controller, node = made["n1"], made["n2"]
    controller.run("apt-get", "-qq", "update")
    controller.run("apt-get", "-qq", "install", "--yes", "python3-venv")
    controller.run("python3", "-m", "venv", "/opt/newer")
    controller.run("/opt/newer/bin/pip", "install", "-q", f"{PROJECT}[verify]")
    version = controller.run("/opt/newer/bin/python", "-c", "import ansible; print(ansible.__version__)").stdout
    assert tuple(int(part) for part in version.split(".")[:2]) >= (2, 20), version
    controller.write("/root/key", made.spec.paths.key.read_text(), mode="0600")
    address = f"ansible_host={node.address} ansible_user=root ansible_ssh_private_key_file=/root/key"
    controller.write("/root/cluster.ini", f"[cluster]\nn2 {address}\n\n[cluster:vars]\nfirewall_enabled=true\n")

    def pylaunch(verb: str, *arguments: str) -> Completed:
        line = ("/opt/newer/bin/pylaunch", verb, "-i", "/root/cluster.ini", *arguments)
        return controller.run("env", "--chdir", "/root", *line)

    pylaunch("trust", "--yes")
    first = pylaunch("provision")
    assert "firewall: Apply the rules until they are confirmed or undone: changed on n2" in first.stderr
    assert "1 host: nothing to change" in pylaunch("provision").stderr
    pylaunch("verify")
    node.run("rm", "/etc/pylaunch/firewall/rules.nft")
    assert "/etc/pylaunch/firewall/rules.nft" in pylaunch("provision", "--plan").stdout
    pylaunch("provision", "--reset", "--yes")
    assert node.run("find", "/etc", "-name", "*pylaunch*").stdout == ""
