"""A cluster over time: a node is added, one is replaced, and at the end all is taken back."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from lab.lab import Lab
from lab.nodes import boot
from lab.nodes.node import LabNode
from pylaunch.errors import ExitCode
from pylaunch.transport import process

MEMBERSHIP = ("--roles", "host_baseline,ssh_access,nccl_env")
"""Roles that depend on who is a member, which are enough for a node that comes and goes."""


@dataclass(frozen=True)
class Growing:
    """Two nodes. The inventory names the first one until `grow`."""

    lab: Lab
    whole: str

    def provision(self, *arguments: str) -> process.Completed:
        return self.lab.pylaunch("provision", "-i", str(self.lab.inventory), *arguments, timeout_s=600)

    def plan(self, *arguments: str) -> list[tuple[str, str]]:
        """Host and what differs there."""
        rows = self.provision("--plan", *arguments).stdout.splitlines()[1:]
        return [(row.split()[0], " ".join(row.split()[2:])) for row in rows]

    def grow(self) -> None:
        self.lab.inventory.write_text(self.whole)


@pytest.fixture(scope="module")
def growing(fresh_lab: Callable[..., Lab]) -> Growing:
    """The stories below follow one another, as they do in the life of a cluster."""
    lab = fresh_lab(2)
    whole = lab.inventory.read_text()
    lab.inventory.write_text("\n".join(line for line in whole.splitlines() if not line.startswith("n2")) + "\n")
    return Growing(lab, whole)


def replace_with_fresh_image(lab: Lab, node: LabNode) -> None:
    """Another machine answers to the node's name: everything on its disk is new, its host key too."""
    boot.end(node)
    resolver = (node.paths.upper / "etc/resolv.conf").read_text()
    for directory in (node.paths.upper, node.paths.work, node.paths.root):
        process.run(("rm", "-rf", "--one-file-system", "--", str(directory))).checked()
    for key in (node.paths.host_key, node.paths.host_key.with_suffix(".pub")):
        key.unlink()
    boot.personalise(node, resolver)
    boot.Boot(node).wait()


def test_a_node_that_is_added_changes_itself_and_the_members_list_of_the_others(growing: Growing) -> None:
    first = growing.provision()
    assert first.ok, first.stderr
    growing.grow()
    added = growing.provision(*MEMBERSHIP)
    assert added.ok, added.stderr
    assert "n1: host_baseline 1 changed, ssh_access 1 changed, nccl_env" in added.stderr
    assert growing.lab["n1"].run("getent", "hosts", "n2").stdout.split()[0] == growing.lab["n2"].address


def test_a_node_that_is_replaced_is_refused_until_trusted_and_the_others_learn_its_key(growing: Growing) -> None:
    replace_with_fresh_image(growing.lab, growing.lab["n2"])
    refused = growing.provision(*MEMBERSHIP)
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY
    assert "1 of 2 hosts cannot be reached: n2" in refused.stderr
    assert f"pylaunch trust -i {growing.lab.inventory} --replace --limit n2" in refused.stderr
    trust = ("trust", "--replace", "--limit", "n2", "--yes", "-i", str(growing.lab.inventory))
    assert growing.lab.pylaunch(*trust).ok
    replaced = growing.provision(*MEMBERSHIP)
    assert replaced.ok, replaced.stderr
    assert re.search(r"n2: host_baseline \d changed", replaced.stderr)
    assert "n1: ssh_access 1 changed; ok" in replaced.stderr


FOREIGN = "10.9.9.9\tsomebody-elses"


def test_reset_asks_and_without_a_yes_changes_nothing(growing: Growing) -> None:
    refused = growing.provision("--reset")
    assert "undo on n[1-2] what pylaunch made" in refused.stderr
    assert growing.plan(*MEMBERSHIP, "--limit", "n1") == []


def test_reset_takes_back_what_is_ours_and_leaves_what_is_of_others(growing: Growing) -> None:
    node = growing.lab["n1"]
    node.run("sh", "-c", f"printf '{FOREIGN}\\n' >> /etc/hosts")
    node.write("/etc/systemd/system/chrony.service.d/50-theirs.conf", "[Unit]\n")
    taken = growing.provision("--reset", "--all", "--yes", "--limit", "n1")
    assert taken.ok, taken.stderr
    text = node.read("/etc/hosts")
    assert FOREIGN in text
    assert "pylaunch" not in text
    assert node.run("getent", "hosts", "n1").stdout.split()[0] == "127.0.1.1"
    assert node.run("ls", "/etc/systemd/system/chrony.service.d").stdout == "50-theirs.conf\n"
    assert node.run("find", "/etc", "-name", "*pylaunch*").stdout.split() == []
    assert node.run("find", "/etc/systemd", "-name", "*.conf.d", "-empty").stdout.split() == []
    assert not node.run("test", "-e", "/var/lib/pylaunch/manifest.json", check=False).ok
    node.run("rm", "/etc/ssh/ssh_known_hosts")
    again = growing.provision("--reset", "--all", "--yes", "--limit", "n1")
    assert again.ok, again.stderr
    assert "changed on" not in again.stderr
