"""A node is what a freshly installed machine is, and it is reached as one."""

import configparser
from collections.abc import Callable
from pathlib import Path

from lab.lab import Lab
from pylaunch.store.files import project_known_hosts
from pylaunch.transport import process


def test_no_two_nodes_have_the_same_identity(lab: Lab) -> None:
    for path in ("/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub", "/etc/hostname"):
        assert len({node.read(path) for node in lab}) == len(lab.nodes), path


def test_the_inventory_and_its_host_keys_are_all_that_ssh_needs(lab: Lab) -> None:
    inventory = configparser.ConfigParser(allow_no_value=True, delimiters=["\0"])
    inventory.read(lab.inventory)
    words = dict(word.split("=") for word in next(iter(inventory["cluster"])).split()[1:])
    known_hosts = project_known_hosts(lab.inventory)
    for user in ("root", "ml"):
        ssh = (
            "ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known_hosts}",
            "-i", words["ansible_ssh_private_key_file"], "-l", user, words["ansible_host"],
        )  # fmt: skip
        assert process.run((*ssh, "sudo -n id -un && hostname")).checked().stdout == "root\nn1\n"


def test_a_shared_directory_is_the_same_on_every_node(fresh_lab: Callable[..., Lab], tmp_path: Path) -> None:
    shared = tmp_path / "with space: and colon"
    shared.mkdir()
    lab = fresh_lab(2, share=(shared,))
    (shared / "from-controller").write_text("hello")
    assert lab["n1"].read(f"{shared}/from-controller") == "hello"
    lab["n1"].write(f"{shared}/from-n1", "hello too")
    assert lab["n2"].read(f"{shared}/from-n1") == "hello too"


def test_lab_ssh_gives_a_line_to_the_shell_of_the_node_as_ssh_does(lab: Lab) -> None:
    name = ("--name", lab.spec.name)
    answer = lab.tool("ssh", *name, "n2", "--", "printf '%s|' 'a  b' --x; hostname; exit 7")
    assert (answer.returncode, answer.stdout) == (7, "a  b|--x|n2\n")
