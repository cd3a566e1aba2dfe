from collections.abc import Iterator
from pathlib import Path

import pytest
from testinfra.host import Host

from lab.images.recipe import USER
from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.transport import process
from pylaunch.transport.connections import disconnect
from tests.roles.conftest import Provisioned

DROP_IN = "/etc/ssh/sshd_config.d/90-pylaunch.conf"


def test_every_host_knows_every_member_by_name_and_by_address(node: Host, provisioned: Provisioned) -> None:
    for member in provisioned.lab:
        for name in (member.name, member.address):
            node.run_test("ssh-keygen -F %s -f /etc/ssh/ssh_known_hosts", name)


def test_sshd_itself_reports_enough_room_for_fan_out(node: Host) -> None:
    effective = node.check_output("/usr/sbin/sshd -T").splitlines()
    assert "maxstartups 100:30:400" in effective
    assert "maxsessions 64" in effective


def test_sshd_was_reloaded_and_never_restarted(node: Host) -> None:
    assert node.check_output("systemctl show --property=NRestarts --value ssh.service") == "0"
    assert "Reloaded" in node.check_output("journalctl --unit ssh.service --grep Reloaded --quiet")


@pytest.fixture
def with_key(provisioned: Provisioned, tmp_path: Path) -> Iterator[Path]:
    """An inventory that authorizes a key of the cluster; n1 has its private half."""
    key = tmp_path / "key"
    process.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))).checked()
    public = key.with_suffix(".pub").read_text().strip()
    inventory = tmp_path / "cluster.ini"
    text = provisioned.lab.inventory.read_text()
    inventory.write_text(f"{text}\n[cluster:vars]\nssh_access_authorized_keys=['{public}']\n")
    (tmp_path / ".pylaunch").symlink_to(provisioned.lab.inventory.parent / ".pylaunch")
    provisioned.lab["n1"].run("sh", "-c", "umask 077; cat > /root/key", stdin=key.read_bytes())
    yield inventory
    provisioned.lab["n1"].run("rm", "/root/key")
    for node in provisioned.lab:
        node.run("sed", "-i", "/BEGIN pylaunch: keys/,/END pylaunch: keys/d", "/root/.ssh/authorized_keys")
    assert provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory), "--roles", "ssh_access").ok


def test_a_member_logs_in_to_another_without_a_question_once_it_has_a_key(
    provisioned: Provisioned, with_key: Path
) -> None:
    words = "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -i /root/key n2 uname -n"
    before = provisioned.lab["n1"].run("sh", "-c", words, check=False)
    assert "Permission denied" in before.stderr
    only_n2 = ("provision", "-i", str(with_key), "--roles", "ssh_access", "--limit", "n2")
    done = provisioned.lab.pylaunch(*only_n2)
    assert done.ok, done.stderr
    assert provisioned.lab["n1"].run("sh", "-c", words).stdout == "n2\n"
    assert provisioned.lab.pylaunch(*only_n2).stderr.startswith("1 host: nothing to change")


def test_a_link_of_the_user_leads_to_no_file_that_the_user_may_not_write(
    provisioned: Provisioned, with_key: Path
) -> None:
    node, path = provisioned.lab["n1"], f"/home/{USER}/keys/authorized_keys"
    settings = {"ssh_access_user": USER, "ssh_access_authorized_keys_path": path, "ansible_become_user": "root"}
    with_key.write_text(with_key.read_text() + "".join(f"{name}={value}\n" for name, value in settings.items()))
    words = ("provision", "-i", str(with_key), "--roles", "ssh_access", "--limit", "n1")
    node.run(
        "sh", "-ec", f"mkdir /root/kept; echo of root > /root/kept/authorized_keys; ln -s /root/kept /home/{USER}/keys"
    )
    try:
        refused = provisioned.lab.pylaunch(*words)
        assert refused.returncode == ExitCode.PROVISION_FAILED
        assert "1 of 1 hosts could not be provisioned: n1" in refused.stderr
        assert node.read("/root/kept/authorized_keys") == "of root\n"
        node.run("rm", f"/home/{USER}/keys")
        done = provisioned.lab.pylaunch(*words)
        assert done.ok, done.stderr
        found = node.run("stat", "-c", "%U %a", f"/home/{USER}/keys", path).stdout.splitlines()
        assert found == [f"{USER} 700", f"{USER} 600"]
    finally:
        node.run("rm", "-rf", "/root/kept", f"/home/{USER}/keys")


@pytest.fixture
def without_include(provisioned: Provisioned) -> Iterator[None]:
    """n3's sshd does not read drop-ins, and has none of ours."""
    node = provisioned.lab["n3"]
    node.run("sed", "-i", "s/^Include/#Include/", "/etc/ssh/sshd_config")
    node.run("rm", DROP_IN)
    yield
    node.run("sed", "-i", "s/^#Include/Include/", "/etc/ssh/sshd_config")
    repaired = provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory), "--roles", "ssh_access")
    assert repaired.ok, repaired.stderr


def test_a_host_that_reads_no_drop_ins_is_reported_and_can_be_reached(
    provisioned: Provisioned, without_include: None
) -> None:
    refused = provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory), "--roles", "ssh_access")
    assert "1 of 3 hosts could not be provisioned: n3" in refused.stderr
    assert 'must begin with "Include /etc/ssh/sshd_config.d/*.conf"' in refused.stderr
    disconnect(load_cluster(provisioned.lab.inventory))
    assert provisioned.host("n3").run("true").rc == 0


def test_settings_that_sshd_cannot_work_with_are_refused_and_logins_go_on(
    provisioned: Provisioned, tmp_path: Path
) -> None:
    inventory = tmp_path / "cluster.ini"
    inventory.write_text(
        provisioned.lab.inventory.read_text() + "\n[cluster:vars]\nssh_access_max_startups=400:30:100\n"
    )
    (tmp_path / ".pylaunch").symlink_to(provisioned.lab.inventory.parent / ".pylaunch")
    refused = provisioned.lab.pylaunch("provision", "-i", str(inventory), "--roles", "ssh_access", "--limit", "n1")
    assert "ssh_access: Write sshd's settings: failed to validate" in refused.stderr
    assert "MaxStartups 100:30:400" in provisioned.lab["n1"].read(DROP_IN)
    assert provisioned.host("n1").run("true").rc == 0
