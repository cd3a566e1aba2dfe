"""One managed property of each role, changed by hand on one node: three commands name the node, the property, the role.

`verify` reads the node and the variables of the roles; `check` and `provision --plan` compare its manifest.
"""

import json
from collections.abc import Iterator

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.lab.controller import not_kept
from tests.roles.conftest import Provisioned
from tests.roles.test_operations import SITE_PACKAGES, provision

NODE = "n2"
LIMITS, SSHD = "/etc/security/limits.d/90-pylaunch.conf", "/etc/ssh/sshd_config.d/90-pylaunch.conf"
MUTATIONS = {
    "firewall": (
        "nft flush set inet pylaunch members4", "firewall", "test_the_kernel_lets_every_member_in_and_nobody_else"
    ),
    "gpu_node": ("apt-mark unhold procps", "package procps", "test_packages_that_must_not_change_are_held"),
    "host_baseline": (f"chmod 0600 {LIMITS}", LIMITS, "test_files_of_the_role_hold_its_variables"),
    "nccl_env": (
        "sed -i 's/^NCCL_SOCKET_IFNAME=.*/NCCL_SOCKET_IFNAME==nosuch0/' /etc/nccl.conf", "/etc/nccl.conf",
        "test_the_interface_of_ranks_is_there_and_up",
    ),
    "python_env": (
        f"mv {SITE_PACKAGES}/six-1.17.0.dist-info /root/", "/opt/pylaunch/envs/", "test_every_host_has_the_same_bytes"
    ),
    "ssh_access": (
        f"sed -i 's/^MaxStartups.*/MaxStartups 10:30:100/' {SSHD}", SSHD, "test_sshd_has_room_for_the_whole_cluster"
    ),
    "time_sync": (
        "systemctl stop chrony.service", "chrony.service", "test_chrony_runs_and_nothing_else_sets_the_clock"
    ),
}  # fmt: skip
"""Role → the change, the property as commands name it, and the specification that does not hold any more."""


@pytest.fixture
def mutated(provisioned: Provisioned) -> Iterator[Lab]:
    """One property of each role is changed on NODE."""
    lab = provisioned.lab
    for change, _, _ in MUTATIONS.values():
        lab[NODE].run("sh", "-c", change)
    yield lab
    lab[NODE].run("rm", "-rf", "/root/six-1.17.0.dist-info")  # The environment was made again.


def test_every_role_is_seen_to_differ_by_verify_by_check_and_by_a_plan(mutated: Lab) -> None:
    lab, inventory = mutated, str(mutated.inventory)
    verified = lab.pylaunch("verify", "-i", inventory, "--json", timeout_s=300)
    assert verified.returncode == ExitCode.JOB_FAILED
    together = json.loads(verified.stdout)["specifications"]
    failed = not_kept(verified) | {
        each["specification"].partition(".")[2]
        for each in together
        if each["outcome"] == "failed" and NODE in each["message"]
    }
    for role, (_, _, specification) in MUTATIONS.items():
        assert f"{specification}[{NODE}]" in failed or specification in failed, (role, failed)
    assert [name for name in failed if "[" in name and not name.endswith(f"[{NODE}]")] == []

    checked = lab.pylaunch("check", "-i", inventory, "--only", "roles.drift", "--json", timeout_s=300)
    findings = [each for each in json.loads(checked.stdout)["findings"] if each["check"] == "roles.drift"]
    assert {tuple(each["hosts"]) for each in findings} == {(NODE,)}
    planned = json.loads(provision(lab, "--plan", "--json").stdout)
    differences = {each["host"]: each["differences"] for each in planned["hosts"]}
    assert (differences["n1"], differences["n3"]) == ([], [])
    for role, (_, subject, _) in MUTATIONS.items():
        assert [each for each in findings if each["text"].startswith(f"{role}: {subject}") or role == "firewall"], role
        assert [each for each in differences[NODE] if each["role"] == role and each["subject"].startswith(subject)], (
            role
        )
    mended = provision(lab)
    assert mended.ok, mended.stderr
    assert provision(lab).stderr.startswith("3 hosts: nothing to change")
