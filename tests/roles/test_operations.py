"""Operations of an administrator on a provisioned cluster."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.transport import process
from pylaunch.transport.connections import connector_of, disconnect
from tests.roles.conftest import NODES
from tests.waiting import wait_until

HOLD_PACKAGE_LOCK = """
import fcntl, time
lock = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
open("/run/busy-packages", "w").close()
time.sleep(1200)
"""
HOLD_LISTS = """
import fcntl, time
lock = open("/var/lib/apt/lists/lock", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
open("/run/busy-lists", "w").close()
time.sleep(1200)
"""
SITE_PACKAGES = "/opt/pylaunch/current/lib/python3.11/site-packages"


def provision(lab: Lab, *arguments: str, inventory: Path | None = None) -> process.Completed:
    return lab.pylaunch("provision", "-i", str(inventory or lab.inventory), *arguments, timeout_s=600)


def variant(lab: Lab, directory: Path, text: str) -> Path:
    """Another inventory of the same cluster."""
    inventory = directory / "cluster.ini"
    inventory.write_text(text)
    (directory / ".pylaunch").symlink_to(lab.inventory.parent / ".pylaunch")
    return inventory


def test_the_lines_that_would_change_are_shown_once_for_all_hosts(lab: Lab) -> None:
    for name in ("n1", "n2"):
        lab[name].run("sh", "-c", "echo '* soft memlock 64' >> /etc/security/limits.d/90-pylaunch.conf")
    shown = provision(lab, "--plan", "--diff").stdout
    assert shown.count("n[1-2]: host_baseline: /etc/security/limits.d/90-pylaunch.conf\n") == 1
    assert "\n-* soft memlock 64\n" in shown
    for name in ("n1", "n2"):
        lab[name].run("sed", "-i", "/^[*] soft memlock 64$/d", "/etc/security/limits.d/90-pylaunch.conf")


def test_a_removed_package_is_put_right_once_nobody_else_holds_packages_and_lists(lab: Lab) -> None:
    holders = {"n1": "busy-packages", "n2": "busy-lists"}
    for (name, unit), program in zip(holders.items(), (HOLD_PACKAGE_LOCK, HOLD_LISTS), strict=True):
        lab[name].run("apt-get", "-y", "purge", "chrony")
        lab[name].run("systemd-run", "--quiet", "--collect", f"--unit={unit}", "/usr/bin/python3", "-c", program)

    def has_begun(name: str) -> bool:
        is_locked = lab[name].run("test", "-e", f"/run/{holders[name]}", check=False).ok
        return is_locked and "unfinished" in lab[name].read("/var/lib/pylaunch/manifest.json")

    plan = provision(lab, "--plan").stdout.splitlines()[1:]
    assert {(line.split()[0], line.split()[1]) for line in plan} == {("n[1-2]", "time_sync")}, plan
    assert any("package chrony" in line and "not installed" in line for line in plan)
    command = lab.command("provision", "-i", str(lab.inventory), "--roles", "time_sync")
    controller = subprocess.Popen(
        command, env={**os.environ, **lab.environment}, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        wait_until(lambda: all(map(has_begun, holders)), "the role has begun and the locks are held", 300)
        for name, unit in holders.items():
            lab[name].run("systemctl", "stop", unit)
        _, output = controller.communicate(timeout=300)
    finally:
        controller.kill()
        controller.wait()
        for name, unit in holders.items():
            lab[name].run("systemctl", "stop", unit, check=False)
            lab[name].run("rm", "-f", f"/run/{unit}")
    assert controller.returncode == 0, output
    assert output.startswith("n[1-2]: time_sync\n")


def test_a_controller_that_was_killed_leaves_nothing_that_a_second_one_does_not_finish(
    lab: Lab, tmp_path: Path
) -> None:
    lab["n1"].run("rm", "/etc/security/limits.d/90-pylaunch.conf", "/etc/chrony/conf.d/90-pylaunch.conf")
    output = tmp_path / "stderr"
    with output.open("wb") as sink:
        command = lab.command("provision", "-i", str(lab.inventory))
        controller = subprocess.Popen(command, env={**os.environ, **lab.environment}, stderr=sink)
    wait_until(
        lambda: "host_baseline: Limit logins and set kernel settings: changed" in output.read_text(),
        "the first role began its work",
        300,
    )
    controller.kill()
    controller.wait()
    again = provision(lab)
    assert again.ok, again.stderr
    assert provision(lab).stderr.startswith("3 hosts: nothing to change")


def test_a_failing_canary_stops_the_others_and_they_are_named(lab: Lab) -> None:
    for node in lab:
        node.run("rm", "/etc/sysctl.d/90-pylaunch.conf")
    # A directory in the place of the file: nobody knows what is in it, so Ansible leaves it.
    lab["n2"].run("mkdir", "-p", "/etc/sysctl.d/90-pylaunch.conf/of-somebody-else")
    stopped = provision(lab, "--serial", "1")
    assert stopped.returncode == ExitCode.PROVISION_FAILED
    assert "n1: host_baseline 1 changed; ok" in stopped.stderr
    assert "not touched: n3\n" in stopped.stderr
    assert "1 of 3 hosts could not be provisioned: n2" in stopped.stderr
    assert not lab["n3"].run("test", "-e", "/etc/sysctl.d/90-pylaunch.conf", check=False).ok
    lab["n2"].run("rm", "-r", "/etc/sysctl.d/90-pylaunch.conf")
    assert provision(lab).ok


def test_a_user_with_sudo_is_as_good_as_root(lab: Lab, tmp_path: Path) -> None:
    as_ml = variant(lab, tmp_path, lab.inventory.read_text().replace("ansible_user=root", "ansible_user=ml"))
    lab["n1"].run("rm", "/etc/sysctl.d/90-pylaunch.conf")
    repaired = provision(lab, "--roles", "host_baseline", inventory=as_ml)
    assert repaired.ok, repaired.stderr
    assert lab["n1"].run("stat", "-c", "%U %a", "/etc/sysctl.d/90-pylaunch.conf").stdout == "root 644\n"
    verified = lab.pylaunch("verify", "-i", str(as_ml), "--limit", "n1")
    assert verified.returncode == ExitCode.DONE, verified.stdout
    disconnect(load_cluster(as_ml))


@pytest.fixture
def behind_n1(lab: Lab, tmp_path: Path) -> Iterator[Path]:
    """An inventory that reaches n2 through n1 alone."""
    key, known = lab.spec.paths.key, lab.inventory.parent / ".pylaunch" / "known_hosts"
    jump = f"ssh -i {key} -o IdentitiesOnly=yes -o UserKnownHostsFile={known} -W %h:%p root@{lab['n1'].address}"
    lines = lab.inventory.read_text().splitlines()
    arguments = f"ansible_ssh_common_args='-o ProxyCommand=\"{jump}\"'"
    text = "\n".join(f"{line} {arguments}" if line.startswith("n2") else line for line in lines)
    inventory = variant(lab, tmp_path, f"{text}\n")
    disconnect(load_cluster(lab.inventory))
    yield inventory
    disconnect(load_cluster(inventory))


def test_a_host_behind_a_jump_host_is_provisioned_and_verified_through_it(lab: Lab, behind_n1: Path) -> None:
    cluster = load_cluster(behind_n1)
    asked = process.run(connector_of(cluster["n2"], cluster.known_hosts).argv(("sh", "-c", "echo $SSH_CONNECTION")))
    assert asked.stdout.split()[0] == lab["n1"].address, asked.stderr
    lab["n2"].run("rm", "/etc/sysctl.d/90-pylaunch.conf")
    repaired = provision(lab, "--roles", "host_baseline", "--limit", "n2", "--json", inventory=behind_n1)
    assert repaired.ok, repaired.stderr
    assert [each["remaining"] for each in json.loads(repaired.stdout)["hosts"] if each["host"] == "n2"] == [[]]
    verified = lab.pylaunch("verify", "-i", str(behind_n1), "--roles", "time_sync", "--limit", "n2")
    assert verified.returncode == ExitCode.DONE, verified.stdout


def test_without_a_way_out_all_follow_the_clock_of_the_first(lab: Lab) -> None:
    for name in ("n2", "n3"):

        def follows(name: str = name) -> bool:
            row = lab[name].run("chronyc", "-c", "-n", "tracking").stdout.strip().split(",")
            return row[1] == lab["n1"].address and row[13] == "Normal" and abs(float(row[4])) < 0.01

        wait_until(follows, f"{name} follows n1")


def test_verify_passes_on_nodes_that_were_provisioned_and_reports_to_ci(lab: Lab, tmp_path: Path) -> None:
    verified = lab.pylaunch("verify", "-i", str(lab.inventory), "--deep", "--junit", str(tmp_path / "report.xml"))
    assert verified.returncode == ExitCode.DONE, verified.stdout
    (suite,) = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    names = {case.get("name") for case in suite}
    assert names >= {f"test_no_file_was_edited[{name}]" for name in NODES}
    skips = {case.get("name"): each.get("message") for case in suite for each in case.iter("skipped")}
    assert skips["test_libraries_and_driver_are_of_one_version[n1]"] == "n1 has no NVIDIA device"


def test_verify_distinguishes_a_host_that_is_down_from_one_that_is_wrong(lab: Lab) -> None:
    with lab["n3"].cut():
        verified = lab.pylaunch("verify", "-i", str(lab.inventory), "--roles", "python_env")
    assert verified.returncode == ExitCode.CLUSTER_NOT_READY
    assert "1 of 3 hosts cannot be reached: n3" in verified.stderr
    assert "n3" not in verified.stdout
