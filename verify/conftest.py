"""Fixtures of every specification: the hosts of an inventory, probed once, and each of them through testinfra.

`pylaunch verify -i cluster.ini` runs this directory; so does `pytest DIRECTORY --inventory cluster.ini`.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.cluster import Host as ClusterHost
from pylaunch.probe.ask import NoPython, Unreachable
from pylaunch.provision.convergence import ProvisionSurvey, site_request, survey
from pylaunch.provision.state import RoleState
from pylaunch.transport import process
from pylaunch.transport.connections import connector_of
from pylaunch.transport.connector import Connector

CLUSTER = pytest.StashKey[Cluster]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Also printed by `pylaunch verify`."""
    parser.addoption("--inventory", required=True, metavar="FILE", help="Ansible inventory of the hosts to verify.")
    parser.addoption("--limit", metavar="HOSTS", help="Only these hosts or groups.")
    parser.addoption("--roles", default="", metavar="ROLES", help="Only these roles, comma-separated.")
    parser.addoption("--survey", type=Path, metavar="FILE", help="What pylaunch verify found when it asked every host.")
    parser.addoption("--deep", action="store_true", help="Look at every file of the Python environment.")


def pytest_configure(config: pytest.Config) -> None:
    """Read the inventory before any test is made of it."""
    config.addinivalue_line("markers", "role(name): what this role is to bring about")
    config.stash[CLUSTER] = load_cluster(Path(config.getoption("--inventory")), limit=config.getoption("--limit"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add host and role to the id of each test, and omit roles that were not requested."""
    for item in items:
        _describe(item)
    if not (wanted := roles(config)):
        return
    marks = [(item, item.get_closest_marker("role")) for item in items]
    items[:] = [item for item, mark in marks if mark is None or mark.args[0] in wanted]


def _describe(item: pytest.Item) -> None:
    """Properties that the JUnit report has, for `pylaunch verify --json`."""
    host = item.callspec.params.get("name") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    role = item.get_closest_marker("role")
    if host is not None:
        item.user_properties.append(("host", host))
    if role is not None:
        item.user_properties.append(("role", role.args[0]))


def roles(config: pytest.Config) -> tuple[str, ...]:
    """The requested roles; none means all."""
    return tuple(role.strip() for role in config.getoption("--roles").split(",") if role.strip())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `name` holds for every host."""
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", metafunc.config.stash[CLUSTER].names, scope="session")


@dataclass(frozen=True)
class Surveyed:
    """The cluster, and what was found when every host was asked, once."""

    cluster: Cluster
    found: ProvisionSurvey


@pytest.fixture(scope="session")
def surveyed(pytestconfig: pytest.Config) -> Surveyed:
    """All hosts, asked at the same time, by the caller or here."""
    cluster = pytestconfig.stash[CLUSTER]
    if (known := pytestconfig.getoption("--survey")) is not None:
        return Surveyed(cluster, pickle.loads(known.read_bytes()))
    request = site_request(cluster, roles(pytestconfig), deep=pytestconfig.getoption("--deep"))
    return Surveyed(cluster, survey(request))


@pytest.fixture
def reachable(name: str, surveyed: Surveyed) -> str:
    """The name of a host that answers. One that does not is an error of its tests, with the reason."""
    answer = surveyed.found.answers[name]
    if isinstance(answer, Unreachable):
        pytest.fail(f"{name} cannot be reached: {answer.reason}", pytrace=False)
    if isinstance(answer, NoPython):
        pytest.fail(f"{name} has no {answer.path}; install it with pylaunch provision", pytrace=False)
    return name


@pytest.fixture
def state(request: pytest.FixtureRequest, reachable: str, surveyed: Surveyed) -> RoleState:
    """Desired state of the host for the role of this test. Skips where the role does not apply."""
    role = request.node.get_closest_marker("role").args[0]
    for state in surveyed.found.desired.hosts[reachable]:
        if state.role == role:
            return state
    pytest.skip(f"{role} does not apply to {reachable}")


@pytest.fixture
def notes(reachable: str, surveyed: Surveyed) -> set[str]:
    """Settings that the host cannot have, as `provision` reports them."""
    return {note.text for note in surveyed.found.notes[reachable]}


@pytest.fixture
def host(reachable: str, surveyed: Surveyed) -> Host:
    """The host, over the connection that pylaunch shares."""
    return connected(surveyed.cluster, reachable)


@pytest.fixture
def as_root(host: Host) -> Iterator[Host]:
    """The host, seen by root. Skips where that takes a password."""
    is_root, may_become_root = _rights(host)
    if not is_root and not may_become_root:
        pytest.skip("root alone can look, and sudo wants a password")
    with contextlib.nullcontext() if is_root else host.sudo():
        yield host


@functools.cache
def _rights(host: Host) -> tuple[bool, bool]:
    """Return whether the user of the connection is root, and whether sudo asks this user for nothing."""
    is_root = host.check_output("id -u") == "0"
    return is_root, is_root or host.run("sudo --non-interactive true").rc == 0


@pytest.fixture
def fresh_login(reachable: str, surveyed: Surveyed) -> Host:
    """The host in a login made for this test: what was set at an older one does not count."""
    return connected(surveyed.cluster, reachable, shared=False)


def connected(cluster: Cluster, name: str, *, shared: bool = True) -> Host:
    """Return testinfra's view of a host."""
    return _host(cluster[name], cluster.known_hosts, shared=shared)


@functools.cache
def _host(member: ClusterHost, known_hosts: str | None, *, shared: bool) -> Host:
    backend = ConnectorBackend(connector_of(member, known_hosts), shared=shared)
    host = Host(backend)
    backend.set_host(host)
    return host


class ConnectorBackend(BaseBackend):  # type: ignore[misc]  # testinfra has no types
    """Runs testinfra's commands over pylaunch's connection to a host."""

    NAME = "pylaunch"

    def __init__(self, connector: Connector, *, shared: bool) -> None:
        super().__init__(connector.host.name)
        self._connector = connector
        self._shared = shared

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        """Run a shell command. Raises RuntimeError when the host cannot be reached."""
        words = ("/bin/sh", "-c", self.get_command(command, *args))
        ended = process.run(self._connector.argv(words, shared=self._shared))
        if (failure := self._connector.failure(ended)) is not None:
            raise RuntimeError(failure.reason)
        return self.result(ended.returncode, words[-1].encode(), ended.stdout.encode(), ended.stderr.encode())
