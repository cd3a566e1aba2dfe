"""Three lab nodes that pylaunch provisioned, and testinfra over SSH to look at them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import testinfra
from testinfra.host import Host

from lab.lab import Lab
from pylaunch.features.provision.environments.environment import LockRequest, lock
from pylaunch.inventory import load_cluster
from pylaunch.store import content
from pylaunch.store.files import project_directory
from pylaunch.transport.process import Completed
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, run_playbook
from tests.lab.conftest import _new_name, _real_nodes
from tests.node_python import NODE_PYTHON
from tests.wheels import download

__all__ = ["_real_nodes"]

NODES = ("n1", "n2", "n3")
FIRST = "n1"
"""The member with most to do: it serves its clock to the others."""

SETTINGS = "firewall_enabled=true\nfirewall_confirm_within=120\ntime_sync_local=true\n"
"""Every role has something to do."""

HELD = ["procps", "nvidia-fabricmanager-570"]


@dataclass(frozen=True)
class Provisioned:
    """A lab after its first `pylaunch provision`."""

    lab: Lab
    checked: PlaybookResult
    """The playbook in check mode on FIRST, before anything was changed."""

    first: Completed
    ssh_config: Path
    wheels: Path
    """Directory of wheels that all nodes see."""

    def playbook(self) -> PlaybookResult:
        """site.yml once more, whether or not anything differs, on FIRST."""
        return site(self.lab)

    def host(self, name: str) -> Host:
        """testinfra's view of a node, over a connection of its own."""
        return testinfra.get_host(f"ssh://{name}", ssh_config=str(self.ssh_config), controlpersist=0)


def site(lab: Lab, *, check: bool = False) -> PlaybookResult:
    directory = str(project_directory(lab.inventory))
    return run_playbook(
        PlaybookRun(
            content.playbook("site"),
            load_cluster(lab.inventory).only([FIRST]),
            extra_vars={"pylaunch_project_directory": directory},
            check=check,
        )
    )


@pytest.fixture(scope="session")
def provisioned(_real_nodes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provisioned]:
    """Made once: role tests look, and put right what they disturb."""
    directory, wheels = tmp_path_factory.mktemp("roles"), tmp_path_factory.mktemp("wheels")
    with Lab.up(_new_name(), nodes=len(NODES), share=(wheels,), inventory=directory / "cluster.ini") as lab:
        settings = f"{SETTINGS}gpu_node_hold_packages={HELD}\npython_env_index={wheels}\n"
        lab.inventory.write_text(f"{lab.inventory.read_text()}\n[cluster:vars]\n{settings}")
        (directory / "requirements.txt").write_text("six==1.17.0\ntabulate==0.9.0\n")
        environment = project_directory(lab.inventory) / "environment"
        lock(LockRequest((directory / "requirements.txt",), environment, NODE_PYTHON))
        download(environment, wheels)
        cluster = load_cluster(lab.inventory)
        ssh_config = directory / "ssh_config"
        ssh_config.write_text(
            "".join(
                f"Host {host.name}\n  HostName {host.address}\n  User {host.ssh.user}\n"
                f"  IdentityFile {host.ssh.private_key}\n  UserKnownHostsFile {cluster.known_hosts}\n"
                "  StrictHostKeyChecking yes\n"
                for host in cluster.hosts
            )
        )
        checked = site(lab, check=True)
        yield Provisioned(lab, checked, lab.pylaunch("provision", "-i", str(lab.inventory)), ssh_config, wheels)


@pytest.fixture
def lab(provisioned: Provisioned) -> Lab:
    """The provisioned nodes. A story that changes them puts them right again."""
    return provisioned.lab


@pytest.fixture(params=NODES)
def node(request: pytest.FixtureRequest, provisioned: Provisioned) -> Host:
    """Each node in turn."""
    return provisioned.host(request.param)
