"""One environment after another: edited, replaced, interrupted, rolled back."""

import json
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
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
from tests.roles.test_operations import SITE_PACKAGES, provision


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
def another(lab: Lab, tmp_path: Path) -> Iterator[EnvironmentManifest]:
    """Another environment to have, not on the nodes yet. Afterwards the one before is the one to have again."""
    directory = project_directory(lab.inventory) / "environment"
    (tmp_path / "requirements.txt").write_text("six==1.16.0\ntabulate==0.9.0\n")
    before = read_manifest(directory)
    (target,) = current(lab)
    made = lock(LockRequest((tmp_path / "requirements.txt",), directory, NODE_PYTHON)).manifest
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
    only_wheels_that_changed_travelled(lab)
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
    assert "Copy the environment's wheels" not in rolled_back.stderr
    assert current(lab) == {before}
    assert provision(lab).stderr.startswith("3 hosts: nothing to change")


def only_wheels_that_changed_travelled(lab: Lab) -> None:
    (part,) = (project_directory(lab.inventory) / "environment" / "parts").glob("*.tar")
    with tarfile.open(part) as tar:
        travelled = tar.getnames()
    assert [name.split("-")[0] for name in travelled] == ["requirements.lock", "wheels/six"]
    own = lab["n2"].run("find", "/opt/pylaunch/envs", "-samefile", f"{SITE_PACKAGES}/six.py").stdout.split()
    assert len(own) == 1, "a wheel that changed has files of its own"
    shared = lab["n2"].run("find", "/opt/pylaunch/envs", "-samefile", f"{SITE_PACKAGES}/tabulate/__init__.py")
    assert len(shared.stdout.split()) == 2


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
    assert not lab["n1"].run("ls", "-A", "/opt/pylaunch/incoming", check=False).stdout
    assert provision(lab).ok
    assert provision(lab, "--deep").stderr.startswith("3 hosts: nothing to change")


def test_the_environment_of_another_project_is_beside_the_first_and_is_removed_alone(lab: Lab, tmp_path: Path) -> None:
    before, own = current(lab), project_environment(lab.inventory, "vision")
    (tmp_path / "requirements.txt").write_text("six==1.16.0\ntabulate==0.9.0\n")
    lock(LockRequest((tmp_path / "requirements.txt",), own, NODE_PYTHON))
    (tmp_path / "pylaunch.toml").write_text('[env]\nname = "vision"\n')
    inventory = ("-i", str(lab.inventory))
    made = lab.pylaunch("provision", *inventory, cwd=tmp_path)
    assert made.ok, made.stderr
    assert made.stderr.startswith("n[1-3]: python_env\n")
    with tarfile.open(next((own / "parts").glob("*.tar"))) as tar:
        assert [name.split("-")[0] for name in tar.getnames()] == ["requirements.lock", "wheels/six"]
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
    wheels, export, env_lock = re.findall(
        r"^ {4}(pip wheel -r .*|export PIP_.*|pylaunch env lock .*)$", page, re.MULTILINE
    )
    reader = Reader(lab, tmp_path)
    reader.has_program("pip", sys.executable, "-m", "pip")
    (reader.directory / "requirements.txt").write_text("six==1.16.0\n")
    uv = f"pip wheel -w wheels uv=={metadata.version('uv')}"  # It is one of pylaunch's dependencies.
    assert reader.types_to_its_end(f"{uv} && {wheels}") == ExitCode.DONE, reader.sees
    env_lock = env_lock.replace("env lock", f"env lock --python {NODE_PYTHON}")
    index = "PIP_CONFIG_FILE=/dev/null PIP_EXTRA_INDEX_URL= PIP_INDEX_URL=http://127.0.0.1:9/simple PIP_RETRIES=0"
    unreachable = f"export {index}"
    assert reader.types_to_its_end(f"{unreachable}; {env_lock}") != ExitCode.DONE, "the index is unreachable"
    assert reader.types_to_its_end(f"{unreachable}; {export}; {env_lock}") == ExitCode.DONE, reader.sees
    assert provision(lab, "--environment", str(reader.directory / ".pylaunch/environment")).ok
    words = ("/opt/pylaunch/current/bin/python", "-c", "import six; print(six.__version__)")
    assert {node.run(*words).stdout for node in lab} == {"1.16.0\n"}
