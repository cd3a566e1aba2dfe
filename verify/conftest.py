"""Fixtures of every specification: the hosts of an inventory, the variables of roles, and each host through testinfra.

A specification reads a host itself, and compares it with the variables that the inventory and the defaults of the role
give; it knows nothing of what provisioning recorded or found.

`pylaunch verify -i cluster.ini` runs this directory; so does `pytest DIRECTORY --inventory cluster.ini`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from pylaunch.agent.probe.readers.hosts import reach
from pylaunch.inventory import load_cluster
from pylaunch.inventory.cluster import Listing
from pylaunch.inventory.keys import UNPRIVILEGED, is_true
from pylaunch.inventory.load import is_host_list, listing_of
from pylaunch.model.cluster import Cluster
from pylaunch.model.cluster import Host as ClusterHost
from pylaunch.probe.ask import Unreachable, ask, parted
from pylaunch.probe.program import probe
from pylaunch.store import content
from pylaunch.transport import process
from pylaunch.transport.connections import connector_of
from pylaunch.transport.connector import Connector

CLUSTER = pytest.StashKey[Cluster]()
LISTING = pytest.StashKey[Listing]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Also printed by `pylaunch verify`."""
    parser.addoption("--inventory", required=True, metavar="FILE", help="Ansible inventory of the hosts to verify.")
    parser.addoption("--limit", metavar="HOSTS", help="Only these hosts or groups.")
    parser.addoption("--roles", default="", metavar="ROLES", help="Only these roles, comma-separated.")
    parser.addoption("--deep", action="store_true", help="Look at every file of the Python environment.")


def pytest_configure(config: pytest.Config) -> None:
    """Read the inventory before any test is made of it."""
    config.addinivalue_line("markers", "role(name): what this role is to bring about")
    inventory = Path(config.getoption("--inventory"))
    config.stash[CLUSTER] = load_cluster(inventory, limit=config.getoption("--limit"))
    config.stash[LISTING] = listing_of(inventory if is_host_list(inventory) else inventory.absolute())


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
class Members:
    """The cluster, and which of its hosts do not answer."""

    cluster: Cluster
    unreachable: Mapping[str, Unreachable]

    @property
    def names(self) -> list[str]:
        """Hosts that answer."""
        return [name for name in self.cluster.names if name not in self.unreachable]


@pytest.fixture(scope="session")
def members(pytestconfig: pytest.Config) -> Members:
    """All hosts, asked at the same time."""
    cluster = pytestconfig.stash[CLUSTER]
    _, unreachable = parted(ask(cluster, dict.fromkeys(cluster.names, probe(reach.identity.ask(None)))), cluster)
    return Members(cluster, unreachable)


@pytest.fixture
def reachable(name: str, members: Members) -> str:
    """The name of a host that answers. One that does not is an error of its tests, with the reason."""
    if name in members.unreachable:
        pytest.fail(f"{name} cannot be reached: {members.unreachable[name].reason}", pytrace=False)
    return name


@dataclass(frozen=True)
class RoleVariables:
    """Variables of a role on one host: those of the inventory over the defaults of the role."""

    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        value = self.values[name]
        if isinstance(value, str) and "{{" in value:
            pytest.skip(f"{name} is a template, which Ansible renders")
        return value

    def is_on(self, name: str) -> bool:
        """Return a boolean."""
        return is_true(self[name])

    def is_set(self, name: str) -> bool:
        """The inventory sets the variable; its default may be a template."""
        return "{{" not in str(self.values[name])


@pytest.fixture
def variables(request: pytest.FixtureRequest, reachable: str, pytestconfig: pytest.Config) -> RoleVariables:
    """Variables of the host for the role of this test. Skips where the role does not apply."""
    role = request.node.get_closest_marker("role").args[0]
    own = pytestconfig.stash[LISTING].variables.get(reachable, {})
    if role != "python_env" and is_true(own.get(UNPRIVILEGED, False)):
        pytest.skip(f"{role} does not apply to {reachable}")
    return RoleVariables({**defaults(role), **own})


@functools.cache
def defaults(role: str) -> dict[str, Any]:
    """Return the default of each variable of a role, as its file has it."""
    found: dict[str, Any] = yaml.safe_load((content.roles_directory() / role / "defaults" / "main.yml").read_text())
    return found


@pytest.fixture
def capabilities(host: Host) -> int:
    """The capabilities that processes of the host can have: a container may lack some."""
    return int(host.check_output("sed -n 's/^CapBnd:[[:space:]]*//p' /proc/1/status"), 16)


@pytest.fixture
def host(reachable: str, members: Members) -> Host:
    """The host, over the connection that pylaunch shares."""
    return connected(members.cluster, reachable)


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
def fresh_login(reachable: str, members: Members) -> Host:
    """The host in a login made for this test: what was set at an older one does not count."""
    return connected(members.cluster, reachable, shared=False)


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
