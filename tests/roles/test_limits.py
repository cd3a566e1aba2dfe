"""The limits of ranks: what a real rank prints is what the probe has answered, wherever the limits come from."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.images.recipe import USER
from lab.nodes.node import LabNode
from pylaunch.agent.probe.readers.hosts import host
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.probe.answers import Unmeasured, values
from pylaunch.probe.ask import ask, understood_all
from pylaunch.probe.program import probe
from pylaunch.transport.connections import disconnect
from tests.roles.conftest import Provisioned

OPTIONS = {"memlock": "-l", "nofile": "-n", "stack": "-s"}
ULIMITS = "; ".join(f"echo {name}: $(ulimit -S {option})" for name, option in OPTIONS.items())
KNOWN = {"memlock": ("locked memory", 1024), "nofile": ("open files", 1)}
"""Limits of the probe, and the unit in which `ulimit` prints each."""

UNIT_DROP_IN = "/etc/systemd/system/ssh.service.d/50-test.conf"
SSHD_DROP_IN = "/etc/ssh/sshd_config.d/50-test.conf"


@dataclass(frozen=True)
class Ranks:
    """One node of the cluster as one user has it."""

    provisioned: Provisioned
    node: LabNode
    inventory: Path

    @property
    def cluster(self) -> Cluster:
        return load_cluster(self.inventory)

    def verify(self) -> str:
        """What `pylaunch verify` reports about the limits."""
        words = ("verify", "-i", str(self.inventory), "--roles", "host_baseline")
        return self.provisioned.lab.pylaunch(*words, timeout_s=300).stdout

    def answered(self) -> dict[str, str]:
        """Soft limits that the probe reads over its own connection."""
        disconnect(self.cluster)
        question = host.limits.ask(None)
        answers = ask(self.cluster, {self.node.name: probe(question)})
        found, unreachable = understood_all(answers, self.cluster, lambda answered: values(answered, question))
        assert not unreachable, unreachable
        limits = found[self.node.name][str(host.limits)]
        assert not isinstance(limits, Unmeasured), limits
        return {
            name: "unlimited" if (soft := limits[known]["soft"]) is None else str(soft // unit)
            for name, (known, unit) in KNOWN.items()
        }

    def printed(self) -> dict[str, str]:
        """Soft limits that a rank of a run prints, over its own connection."""
        disconnect(self.cluster)
        words = ("--framework", "command", "--workdir", "/", "--", "sh", "-c", ULIMITS)
        run = self.provisioned.lab.pylaunch("start", "-i", str(self.inventory), *words)
        assert run.ok, run.stderr
        return dict(re.findall(r"(\w+): (\d+|unlimited)$", run.stdout, re.MULTILINE))


@pytest.fixture(params=["root", USER])
def ranks(request: pytest.FixtureRequest, provisioned: Provisioned, tmp_path: Path) -> Iterator[Ranks]:
    """n2 as root has it, and as a user who is not root."""
    text = provisioned.lab.inventory.read_text().replace("ansible_user=root", f"ansible_user={request.param}")
    inventory = tmp_path / "cluster.ini"
    inventory.write_text("\n".join(line for line in text.splitlines() if not line.startswith(("n1", "n3"))) + "\n")
    (tmp_path / ".pylaunch").symlink_to(provisioned.lab.inventory.parent / ".pylaunch")
    yield Ranks(provisioned, provisioned.lab["n2"], inventory)
    disconnect(load_cluster(inventory))


@pytest.fixture
def small_stack_for_sshd(provisioned: Provisioned) -> Iterator[LabNode]:
    """systemd starts n2's sshd with a limit of its own, as LimitSTACK= and DefaultLimitSTACK= do."""
    node = provisioned.lab["n2"]
    node.write(UNIT_DROP_IN, "[Service]\nLimitSTACK=2M:infinity\n")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "restart", "ssh.service")
    yield node
    node.run("rm", "-f", UNIT_DROP_IN, SSHD_DROP_IN)
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "restart", "ssh.service")


def test_a_rank_has_the_limits_that_the_probe_answers(ranks: Ranks) -> None:
    printed = ranks.printed()
    assert ranks.answered().items() <= printed.items()
    assert printed["stack"] == "8192"


@pytest.mark.parametrize("ranks", [USER], indirect=True)
def test_limits_that_systemd_gives_sshd_reach_ranks_only_where_sshd_does_without_pam(
    ranks: Ranks, small_stack_for_sshd: LabNode
) -> None:
    small_stack_for_sshd.write(SSHD_DROP_IN, "UsePAM no\n")
    # A reload returns before sshd has read the file: connections until then are closed.
    small_stack_for_sshd.run("systemctl", "restart", "ssh.service")
    printed = ranks.printed()
    assert ranks.answered().items() <= printed.items()
    assert printed["stack"] == "2048"
    assert "FAIL  n2: a fresh login gets the limit" in ranks.verify()


@pytest.fixture
def ulimit_in_bashrc(ranks: Ranks) -> Iterator[str]:
    """The user's shell lowers a limit before it looks whether somebody sits in front of it."""
    user = ranks.cluster["n2"].ssh.user
    (home,) = ranks.node.run("sh", "-c", f"echo ~{user}").stdout.split()
    path = f"{home}/.bashrc"
    ranks.node.run("cp", "-p", path, f"{path}.kept")
    ranks.node.run("sed", "-i", "1i ulimit -S -s 4096", path)
    yield path
    ranks.node.run("mv", f"{path}.kept", path)


@pytest.mark.parametrize("ranks", [USER], indirect=True)
def test_verify_names_a_limit_that_the_users_shell_lowers(ranks: Ranks, ulimit_in_bashrc: str) -> None:
    printed = ranks.printed()
    assert ranks.answered().items() <= printed.items()
    assert printed["stack"] == "4096"
    verified = ranks.verify()
    assert "FAIL  n2: a fresh login gets the limit  [host_baseline]" in verified
    assert "'4096' == '8192'" in verified
