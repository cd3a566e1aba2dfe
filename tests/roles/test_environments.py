"""One environment after another: edited, replaced, interrupted, rolled back."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.features.provision.environments.environment import (
    EnvironmentManifest,
    LockRequest,
    lock,
    read_manifest,
    swap_with_previous,
)
from pylaunch.store.files import project_directory, project_environment
from tests.documents import ROOT
from tests.lab.reader import Reader
from tests.node_python import NODE_PYTHON
from tests.roles.conftest import Provisioned
from tests.roles.test_operations import SITE_PACKAGES, provision
from tests.wheels import download


def current(lab: Lab) -> set[str]:
    """The target of `current`, on all nodes."""
    return {node.run("readlink", "/opt/pylaunch/current").stdout.strip() for node in lab}


def test_an_edited_file_is_named_with_host_and_package_and_only_that_environment_is_made_again(lab: Lab) -> None:
    lab["n3"].run("sh", "-c", f"echo '# edited' >> {SITE_PACKAGES}/six.py")
    assert provision(lab, "--plan").stderr.startswith("3 hosts: nothing to change")
    verified = lab.pylaunch("verify", "-i", str(lab.inventory), "--roles", "python_env", "--deep")
    assert verified.returncode == ExitCode.JOB_FAILED
    assert "FAIL  n3: no file was edited  [python_env]\n" in verified.stdout
    assert "site-packages/six.py" in verified.stdout
    assert "six.py edited (six-1.17.0)" in " ".join(provision(lab, "--plan", "--deep").stdout.split())
    repaired = provision(lab, "--deep")
    assert repaired.ok, repaired.stderr
    assert repaired.stderr.startswith("n3: python_env\n")
    assert "# edited" not in lab["n3"].read(f"{SITE_PACKAGES}/six.py")
    assert provision(lab, "--deep").stderr.startswith("3 hosts: nothing to change")


@pytest.fixture
def another(provisioned: Provisioned, tmp_path: Path) -> Iterator[EnvironmentManifest]:
    """Another environment to have, not on the nodes yet. Afterwards the one before is the one to have again."""
    lab = provisioned.lab
    directory = project_directory(lab.inventory) / "environment"
    (tmp_path / "requirements.txt").write_text("six==1.16.0\ntabulate==0.9.0\n")
    before = read_manifest(directory)
    (target,) = current(lab)
    made = lock(LockRequest((tmp_path / "requirements.txt",), directory, NODE_PYTHON)).manifest
    download(directory, provisioned.wheels)
    yield made
    if read_manifest(directory) != before:
        swap_with_previous(directory)
    assert read_manifest(directory) == before
    # The nodes would keep the new one, and the next story wants one that they do not have.
    for node in lab:
        node.run("ln", "-sfn", target, "/opt/pylaunch/current")
        node.run("rm", "-rf", f"/opt/pylaunch/envs/{made.id}")
    assert provision(lab, "--roles", "python_env").ok


def test_a_new_environment_replaces_the_old_one_and_a_rollback_brings_it_back_everywhere(
    lab: Lab, another: EnvironmentManifest
) -> None:
    (before,) = current(lab)
    assert provision(lab).ok
    assert current(lab) == {f"envs/{another.id}"}
    own = lab["n2"].run("find", "/opt/pylaunch/envs", "-samefile", f"{SITE_PACKAGES}/six.py").stdout.split()
    assert len(own) == 1, "a wheel that changed has files of its own"
    shared = lab["n2"].run("find", "/opt/pylaunch/envs", "-samefile", f"{SITE_PACKAGES}/tabulate/__init__.py")
    assert len(shared.stdout.split()) == 2
    marker = "/opt/pylaunch/current/pylaunch-environment.json"
    built_on_another = json.loads(lab["n3"].read(marker))
    lab["n3"].run("sh", "-ec", "cd /opt/pylaunch; mv envs /root/; rm -r tools")
    assert provision(lab).ok
    assert json.loads(lab["n3"].read(marker)) == built_on_another, "the result is that of a full installation"
    assert provision(lab, "--deep").stderr.startswith("3 hosts: nothing to change")
    lab["n3"].run("sh", "-ec", "cd /opt/pylaunch; rm -r envs; mv /root/envs .")
    with lab["n2"].cut():
        refused = provision(lab, "--rollback")
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY
    assert current(lab) == {f"envs/{another.id}"}
    rolled_back = provision(lab, "--rollback")
    assert rolled_back.ok, rolled_back.stderr
    assert current(lab) == {before}
    assert provision(lab).stderr.startswith("3 hosts: nothing to change")


def test_a_full_disk_leaves_the_environment_in_use_as_it_was_and_one_that_was_edited_is_not_built_on(
    lab: Lab, another: EnvironmentManifest
) -> None:
    """n1 has no space, and on n3 somebody edited a file of the environment in use."""
    (before,) = current(lab)
    tabulate = "lib/python3.11/site-packages/tabulate/__init__.py"
    edited = f"/opt/pylaunch/{before}/{tabulate}"
    lab["n3"].run("sh", "-c", f"cp -p {edited} /root/whole.py; echo '# edited' >> {edited}")
    try:
        with lab["n1"].fill("/opt/pylaunch/envs"):
            refused = provision(lab)
        assert lab["n3"].run("readlink", "/opt/pylaunch/current").stdout.strip() == f"envs/{another.id}"
        assert "# edited" not in lab["n3"].read(f"/opt/pylaunch/current/{tabulate}")
    finally:
        lab["n3"].run("cp", "-p", "/root/whole.py", edited)
    assert refused.returncode == ExitCode.PROVISION_FAILED
    assert "1 of 3 hosts could not be provisioned: n1" in refused.stderr
    assert "No space left on device" in refused.stderr
    assert "hint: free space on n1" in refused.stderr
    assert lab["n1"].run("readlink", "/opt/pylaunch/current").stdout.strip() == before
    lab["n1"].run("/opt/pylaunch/current/bin/python", "-c", "import six")
    assert ".new" not in lab["n1"].run("ls", "-A", "/opt/pylaunch/envs").stdout
    assert provision(lab).ok
    assert provision(lab, "--deep").stderr.startswith("3 hosts: nothing to change")


def test_the_environment_of_another_project_is_beside_the_first_and_is_removed_alone(
    provisioned: Provisioned, tmp_path: Path
) -> None:
    lab = provisioned.lab
    before, own = current(lab), project_environment(lab.inventory, "vision")
    (tmp_path / "requirements.txt").write_text("six==1.16.0\ntabulate==0.9.0\n")
    lock(LockRequest((tmp_path / "requirements.txt",), own, NODE_PYTHON))
    download(own, provisioned.wheels)
    (tmp_path / "pylaunch.toml").write_text('[env]\nname = "vision"\n')
    inventory = ("-i", str(lab.inventory))
    made = lab.pylaunch("provision", *inventory, cwd=tmp_path)
    assert made.ok, made.stderr
    assert made.stderr.startswith("n[1-3]: python_env\n")
    for link, version in (("current", "1.17.0"), ("named/vision", "1.16.0")):
        words = (f"/opt/pylaunch/{link}/bin/python", "-c", "import six; print(six.__version__)")
        assert {node.run(*words).stdout for node in lab} == {f"{version}\n"}
    assert provision(lab, "--plan").stderr.startswith("3 hosts: nothing to change")
    reset = ("--roles", "python_env", "--reset", "--all", "--yes")
    removed = lab.pylaunch("provision", *inventory, *reset, cwd=tmp_path)
    assert removed.ok, removed.stderr
    assert {node.run("ls", "/opt/pylaunch/named").stdout for node in lab} == {""}
    assert current(lab) == before


@pytest.fixture
def without_internet(lab: Lab) -> Iterator[None]:
    """Nodes that reach their own network alone. Afterwards they have the environment of before."""
    (before,) = current(lab)
    routes = {node.name: node.run("ip", "route", "show", "default").stdout.split() for node in lab}
    for node in lab:
        node.run("ip", "route", "delete", *routes[node.name])
        assert "unreachable" in node.run("ip", "route", "get", "192.0.2.1", check=False).stderr
    yield
    made = current(lab) - {before}
    for node in lab:
        node.run("ip", "route", "add", *routes[node.name])
        node.run("ln", "-sfn", before, "/opt/pylaunch/current")
        node.run("rm", "-rf", *(f"/opt/pylaunch/{each}" for each in made))
    assert provision(lab, "--roles", "python_env").ok


@pytest.mark.usefixtures("without_internet")
def test_the_guide_without_internet_access_as_typed(lab: Lab, tmp_path: Path) -> None:
    page = (ROOT / "docs/guides/air-gapped.md").read_text()
    section = page.split("\n## Nodes without internet access")[1].partition("\n## ")[0]
    lines = re.findall(r"^ {4}(.+)$", section, re.MULTILINE)
    assert len(lines) == 5
    reader = Reader(lab, tmp_path)
    inventory = reader.directory / "cluster.ini"
    inventory.write_text(re.sub(r"^python_env_index=.*$", "", inventory.read_text(), flags=re.MULTILINE))
    reader.has_program("pip", sys.executable, "-m", "pip")
    (reader.directory / "requirements.txt").write_text("six==1.16.0\n")
    assert reader.types_to_its_end("pylaunch trust -i cluster.ini --yes") == ExitCode.DONE, reader.sees
    for line in lines:
        typed = line.replace("env lock", f"env lock --python {NODE_PYTHON}")
        typed = typed.replace("pip download", f"pip download --python-version {NODE_PYTHON}")
        assert reader.types_to_its_end(typed) == ExitCode.DONE, reader.sees
    words = ("/opt/pylaunch/current/bin/python", "-c", "import six; print(six.__version__)")
    assert {node.run(*words).stdout for node in lab} == {"1.16.0\n"}
    for node in lab:
        node.run("rm", "-r", "/var/tmp/wheels")
