"""`pylaunch verify`: what each role promises, seen by other eyes than the probe's."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.roles.conftest import Provisioned

ROLES = "ssh_access,gpu_node,nccl_env"


def verify(lab: Lab, report: Path) -> tuple[Completed, set[str], dict[str, str]]:
    """Exit status, failed specifications and reasons of skipped ones, from the JUnit report."""
    words = ("--roles", ROLES, "--junit", str(report))
    verified = lab.pylaunch("verify", "-i", str(lab.inventory), *words, timeout_s=180)
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {case.attrib["name"] for case in cases if case.find("failure") is not None}
    skips = {case.attrib["name"]: case.find("skipped") for case in cases}
    return verified, failed, {name: why.attrib["message"] for name, why in skips.items() if why is not None}


@pytest.fixture
def lab(provisioned: Provisioned) -> Iterator[Lab]:
    """The provisioned nodes, with a package to hold; put right again afterwards."""
    lab = provisioned.lab
    variables = lab.inventory.parent / "group_vars"
    variables.mkdir()
    (variables / "all.yml").write_text("gpu_node_hold_packages: [procps, nvidia-fabricmanager-570]\n")
    inventory = ("-i", str(lab.inventory))
    assert lab.pylaunch("provision", *inventory, "--roles", ROLES).ok
    yield lab
    lab.pylaunch("provision", *inventory, "--roles", ROLES)
    for node in lab:
        node.run("apt-mark", "unhold", "procps")
    (variables / "all.yml").unlink()
    variables.rmdir()


def test_what_every_role_promises_holds_or_fails_by_itself_where_it_is_broken(lab: Lab, tmp_path: Path) -> None:
    verified, failed, skipped = verify(lab, tmp_path / "whole.xml")
    assert verified.returncode == ExitCode.DONE, verified.stdout
    assert failed == set()
    assert skipped["test_libraries_and_driver_are_of_one_version[n1]"] == "n1 has no NVIDIA device"
    assert "test_the_next_member_is_who_it_is_known_as[n1]" not in skipped, "the ring was gone round"

    lab["n1"].run("apt-mark", "unhold", "procps")
    lab["n2"].run("sed", "-i", "s/^MaxStartups.*/MaxStartups 10:30:100/", "/etc/ssh/sshd_config.d/90-pylaunch.conf")
    lab["n2"].run("sed", "-i", f"/{lab['n3'].address}/d", "/etc/ssh/ssh_known_hosts")
    lab["n3"].run("sed", "-i", "s/^NCCL_SOCKET_IFNAME=.*/NCCL_SOCKET_IFNAME==nosuch0/", "/etc/nccl.conf")
    broken, failed, _ = verify(lab, tmp_path / "broken.xml")
    assert broken.returncode == ExitCode.JOB_FAILED
    assert failed == {
        "test_packages_that_must_not_change_are_held[n1]",
        "test_sshd_has_room_for_the_whole_cluster[n2]",
        "test_the_host_keys_of_members_are_where_every_user_looks[n2]",
        "test_the_next_member_is_who_it_is_known_as[n2]",
        "test_the_interface_of_ranks_is_there_and_up[n3]",
    }
