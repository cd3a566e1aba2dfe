"""A node is what a freshly installed machine is, and it is reached as one."""

import configparser
import json
from collections.abc import Callable
from pathlib import Path

from lab.lab import Lab
from pylaunch.store.paths import project_known_hosts
from pylaunch.transport import process


def test_a_node_has_what_a_fresh_debian_has_and_no_more(lab: Lab) -> None:
    for node in lab:
        assert f"127.0.1.1\t{node.name}\n" in node.read("/etc/hosts")
        assert node.run("systemctl", "is-system-running", "--wait").stdout == "running\n"
        assert not node.run("dpkg", "-s", "chrony", check=False).ok
        assert node.run("findmnt", "-no", "FSTYPE", "/dev/shm").stdout == "tmpfs\n"
        assert node.run("findmnt", "-no", "FSTYPE", "/sys/fs/cgroup").stdout == "cgroup2\n"


def test_no_two_nodes_have_the_same_identity(lab: Lab) -> None:
    for path in ("/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub", "/etc/hostname"):
        assert len({node.read(path) for node in lab}) == len(lab.nodes), path


def test_nodes_and_controller_reach_each_other(lab: Lab) -> None:
    first, second, _ = lab.nodes
    assert first.run("ping", "-c", "1", "-W", "20", second.address).ok
    assert first.run("ping", "-c", "1", "-W", "20", str(lab.machines.gateway)).ok


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


def test_apt_works_in_a_node(lab: Lab) -> None:
    lab["n1"].run("apt-get", "update", "--quiet", "--option", "APT::Update::Error-Mode=any")


def test_package_lists_are_there_before_anything_is_updated(lab: Lab) -> None:
    assert "Candidate: (none)" not in lab["n2"].run("apt-cache", "policy", "chrony").stdout
    assert "Candidate:" in lab["n2"].run("apt-cache", "policy", "chrony").stdout


def test_nodes_trust_the_authorities_that_the_controller_trusts(lab: Lab) -> None:
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    assert certificates(Path(bundle).read_text()) <= certificates(lab["n1"].read(bundle))


def certificates(bundle: str) -> set[str]:
    return {"".join(part.split("-----END")[0].split()) for part in bundle.split("-----BEGIN CERTIFICATE-----")[1:]}


def test_lab_ssh_gives_a_line_to_the_shell_of_the_node_as_ssh_does(lab: Lab) -> None:
    name = ("--name", lab.spec.name)
    answer = lab.tool("ssh", *name, "n2", "--", "printf '%s|' 'a  b' --x; hostname; exit 7")
    assert (answer.returncode, answer.stdout) == (7, "a  b|--x|n2\n")


def test_status_is_json_for_programs(lab: Lab) -> None:
    answer = lab.tool("status", "--name", lab.spec.name, "--json").checked()
    nodes = json.loads(answer.stdout)["hosts"]
    assert [(node["host"], node["state"], node["link"]) for node in nodes] == [
        (name, "running", "up") for name in ("n1", "n2", "n3")
    ]
