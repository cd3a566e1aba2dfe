"""`pylaunch provision` as a person meets it."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.transport import process
from pylaunch.transport.connections import disconnect
from tests.roles.conftest import FIRST, Provisioned
from tests.waiting import wait_until


def test_check_mode_says_what_would_change_and_changes_nothing(provisioned: Provisioned) -> None:
    assert provisioned.checked.ok, provisioned.checked.failures
    assert any(change.host == FIRST for change in provisioned.checked.changes)
    assert "n[1-3]: host_baseline" in provisioned.first.stderr, "it was all left to the first provision"


def test_the_playbook_changes_nothing_the_second_time(provisioned: Provisioned) -> None:
    again = provisioned.playbook()
    assert again.ok, again.failures
    assert again.changes == ()


def test_only_the_host_that_drifted_is_changed_and_only_in_that_role(provisioned: Provisioned) -> None:
    inventory = str(provisioned.lab.inventory)
    provisioned.lab["n2"].run("sh", "-c", "echo '* soft memlock 64' >> /etc/security/limits.d/90-pylaunch.conf")
    plan = provisioned.lab.pylaunch("provision", "-i", inventory, "--plan", "--json")
    differences = {each["host"]: each["differences"] for each in json.loads(plan.stdout)["hosts"]}
    assert differences == {
        "n1": [],
        "n2": [
            {
                "role": "host_baseline",
                "subject": "/etc/security/limits.d/90-pylaunch.conf",
                "difference": "content differs",
            }
        ],
        "n3": [],
    }
    repaired = provisioned.lab.pylaunch("provision", "-i", inventory)
    assert repaired.ok, repaired.stderr
    assert repaired.stderr.startswith("n2: host_baseline\n")
    assert "n2: host_baseline 1 changed; ok" in repaired.stderr
    assert "memlock 64" not in provisioned.lab["n2"].read("/etc/security/limits.d/90-pylaunch.conf")


@pytest.fixture
def as_bob(provisioned: Provisioned, tmp_path: Path) -> Iterator[Path]:
    """An inventory that reaches n3 as a user whose sudo wants the password `secret`; something on n3 differs."""
    node = provisioned.lab["n3"]
    node.run("useradd", "--create-home", "--groups", "sudo", "bob")
    node.run("chpasswd", stdin=b"bob:secret\n")
    node.run("sh", "-c", "cp -r /root/.ssh /home/bob/ && chown -R bob /home/bob/.ssh")
    text = provisioned.lab.inventory.read_text().replace("ansible_user=root", "ansible_user=bob")
    inventory = tmp_path / "cluster.ini"
    inventory.write_text("\n".join(line for line in text.splitlines() if not line.startswith(("n1", "n2"))))
    (tmp_path / ".pylaunch").symlink_to(provisioned.lab.inventory.parent / ".pylaunch")
    node.run("chmod", "0600", "/etc/chrony/conf.d/90-pylaunch.conf")
    yield inventory
    node.run("chmod", "0644", "/etc/chrony/conf.d/90-pylaunch.conf")
    disconnect(load_cluster(inventory))
    node.run("userdel", "--force", "--remove", "bob", check=False)


def test_a_sudo_that_wants_a_password_is_answered_with_the_flag(provisioned: Provisioned, as_bob: Path) -> None:
    words = ("provision", "-i", str(as_bob), "--roles", "time_sync")
    wrong = process.run(provisioned.lab.command(*words, "-K"), stdin=b"other\n", env=provisioned.lab.environment)
    undone = provisioned.lab.pylaunch(*words, "--reset", "--yes")
    missing = provisioned.lab.pylaunch(*words)
    for refused, reason in ((missing, "Missing"), (undone, "Missing"), (wrong, "Incorrect")):
        assert refused.returncode == ExitCode.PROVISION_FAILED
        assert "1 of 1 hosts could not be provisioned: n3" in refused.stderr
        assert f"{reason} sudo password" in refused.stderr
        assert "hint: repeat the command with -K" in refused.stderr


def test_a_person_types_the_password_once_and_it_is_on_no_screen(
    provisioned: Provisioned, as_bob: Path, tmp_path: Path
) -> None:
    keyboard, terminal = os.openpty()
    output = tmp_path / "output"
    command = provisioned.lab.command("provision", "-i", str(as_bob), "--roles", "time_sync", "-K")
    with output.open("wb") as sink:
        typed = subprocess.Popen(
            command, env={**os.environ, **provisioned.lab.environment}, stdin=terminal, stdout=sink, stderr=sink,
            start_new_session=True,
        )  # fmt: skip
        try:
            # What is typed before the terminal has stopped echoing is thrown away.
            wait_until(lambda: "sudo password: " in output.read_text(), "the question")
            os.write(keyboard, b"secret\n")
            assert typed.wait(300) == ExitCode.DONE, output.read_text()
        finally:
            typed.kill()
            typed.wait()
            os.close(keyboard)
            os.close(terminal)
    assert "n3: time_sync 2 changed; ok" in output.read_text()
    assert "secret" not in output.read_text()
    assert provisioned.lab["n3"].run("stat", "-c", "%a", "/etc/chrony/conf.d/90-pylaunch.conf").stdout == "644\n"
    # Its inventory has no other member, which is an input of the role.
    assert provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory), "--roles", "time_sync").ok


def test_a_host_that_is_down_is_named_and_the_others_are_still_provisioned(provisioned: Provisioned) -> None:
    provisioned.lab["n1"].run("rm", "/etc/sysctl.d/90-pylaunch.conf")
    with provisioned.lab["n3"].cut():
        result = provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory))
    assert result.returncode == ExitCode.CLUSTER_NOT_READY
    assert "n1: host_baseline 1 changed; ok" in result.stderr
    assert "error: 1 of 3 hosts cannot be reached: n3" in result.stderr
