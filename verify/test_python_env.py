"""One locked Python environment, the same bytes everywhere."""

from __future__ import annotations

from collections import Counter

import pytest
from conftest import Surveyed
from testinfra.host import Host

from pylaunch.model.hostset import fold
from pylaunch.provision.state import RoleState

pytestmark = pytest.mark.role("python_env")

LOOK = """
import importlib.metadata, importlib.util
missing = [name for name in importlib.metadata.packages_distributions() if importlib.util.find_spec(name) is None]
assert not missing, missing
"""


def test_the_environment_runs_and_finds_what_is_in_it(state: RoleState, host: Host) -> None:
    if not state.links:
        pytest.skip("no environment is locked")
    python = f"{state.links[0].path}/bin/python"
    ran = host.run("%s -I -c %s", python, LOOK)
    assert ran.rc == 0, ran.stderr


def test_other_users_can_run_it_and_cannot_change_it(state: RoleState, host: Host) -> None:
    if not state.links:
        pytest.skip("no environment is locked")
    assert host.file(f"{state.links[0].path}/").mode & 0o7022 == 0


def test_every_host_has_the_same_bytes(surveyed: Surveyed) -> None:
    digests = {
        host: fact["digest"]
        for host, facts in surveyed.found.facts.items()
        for state in surveyed.found.desired.hosts[host]
        for environment in state.environments
        if isinstance(fact := facts.environments[environment.path], dict)
    }
    if not digests:
        pytest.skip("no host has an environment")
    (usual, _), *others = Counter(digests.values()).most_common()
    odd = fold(host for host, digest in digests.items() if digest != usual)
    assert not others, f"{odd}: not the files that most hosts have"
