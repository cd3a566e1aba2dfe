"""One locked Python environment, the same bytes everywhere."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import Members, RoleVariables, connected
from testinfra.host import Host

from pylaunch.model.cluster import Host as ClusterHost
from pylaunch.model.hostset import fold
from pylaunch.store.files import project_environment

pytestmark = pytest.mark.role("python_env")

MARKER = "pylaunch-environment.json"

LOOK = """
import importlib.metadata, importlib.util
missing = [name for name in importlib.metadata.packages_distributions() if importlib.util.find_spec(name) is None]
assert not missing, missing
"""

EDITED = """
import base64, hashlib, importlib.metadata
for each in importlib.metadata.distributions():
    for file in each.files or ():
        path = file.locate()
        if file.hash is None:
            continue
        found = hashlib.new(file.hash.mode, path.read_bytes()).digest() if path.exists() else b""
        if base64.urlsafe_b64encode(found).decode().rstrip("=") != file.hash.value:
            print(each.metadata["Name"], path)
"""


def link(member: ClusterHost) -> str:
    """The link to the environment of this project."""
    return f"{member.env_root}/{'current' if member.env_name is None else 'named/' + member.env_name}"


@pytest.fixture
def environment(variables: RoleVariables, host: Host, name: str, members: Members) -> str:
    """The environment of a host where one is locked."""
    if not locked(members):
        pytest.skip("no environment is locked")
    return link(members.cluster[name])


def locked(members: Members) -> str | None:
    """Return the id of the environment that is locked beside the inventory."""
    cluster = members.cluster
    file = project_environment(Path(cluster.sources[0]), cluster.env_name) / "manifest.json"
    return str(json.loads(file.read_text())["id"]) if file.is_file() else None


def test_the_environment_is_the_locked_one(environment: str, host: Host, members: Members) -> None:
    assert json.loads(host.file(f"{environment}/{MARKER}").content_string)["id"] == locked(members)


def test_the_environment_runs_and_finds_what_is_in_it(environment: str, host: Host) -> None:
    ran = host.run("%s -I -c %s", f"{environment}/bin/python", LOOK)
    assert ran.rc == 0, ran.stderr


def test_other_users_can_run_it_and_cannot_change_it(environment: str, host: Host) -> None:
    assert host.file(f"{environment}/").mode & 0o7022 == 0


def test_no_file_was_edited(environment: str, host: Host, pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--deep"):
        pytest.skip("reads every file (--deep)")
    assert host.check_output("%s -I -c %s", f"{environment}/bin/python", EDITED).splitlines() == []


def test_every_host_has_the_same_bytes(members: Members) -> None:
    digests = {}
    for name in members.names:
        records = f"{link(members.cluster[name])}/lib/python*/site-packages/*.dist-info/RECORD"
        shown = connected(members.cluster, name).run(f"cat {records} | sha256sum")
        if shown.stderr == "":
            digests[name] = shown.stdout
    if not digests:
        pytest.skip("no host has an environment")
    (usual, _), *others = Counter(digests.values()).most_common()
    odd = fold(host for host, digest in digests.items() if digest != usual)
    assert not others, f"{odd}: not the files that most hosts have"
