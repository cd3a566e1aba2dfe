"""Members reach each other over SSH: they know each other's host keys, and sshd has room."""

from __future__ import annotations

import re

import pytest
from conftest import Surveyed
from testinfra.host import Host

from pylaunch.model.cluster import Connection
from pylaunch.provision.state import RoleState

pytestmark = pytest.mark.role("ssh_access")

KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"


def test_sshd_has_room_for_the_whole_cluster(state: RoleState, as_root: Host) -> None:
    if not state.sshd:
        pytest.skip("another tool owns sshd's configuration (ssh_access_manage_sshd)")
    effective = as_root.check_output("/usr/sbin/sshd -T -C user=root,host=localhost,addr=127.0.0.1").splitlines()
    for option, wanted in state.sshd.items():
        assert f"{option} {wanted}" in effective


def test_the_host_keys_of_members_are_where_every_user_looks(state: RoleState, host: Host) -> None:
    lines = [line for block in state.blocks if block.path == KNOWN_HOSTS for line in block.content.splitlines()]
    if not lines:
        pytest.skip("no host key is trusted yet (pylaunch trust)")
    keys = {(place, key) for places, _, key in (line.partition(" ") for line in lines) for place in places.split(",")}
    places = sorted({place for place, _ in keys})
    ask = f'for place in {"%s " * len(places)}; do ssh-keygen -F "$place" -f {KNOWN_HOSTS}; done'
    found = re.findall("^# Host (.+) found: .*\n(.*)", host.run(ask, *places).stdout, re.MULTILINE)
    for place, key in sorted(keys):
        assert any(name == place and key in line for name, line in found), f"the key of {place} is not known"


def test_the_next_member_is_who_it_is_known_as(state: RoleState, host: Host, name: str, surveyed: Surveyed) -> None:
    """A ring: every member looks, and every member is looked at. Nobody logs in: the key comes before that."""
    if not any(block.path == KNOWN_HOSTS for block in state.blocks):
        pytest.skip("no host key is trusted yet (pylaunch trust)")
    names = surveyed.cluster.names
    peer = surveyed.cluster[names[(names.index(name) + 1) % len(names)]]
    if peer.name == name or peer.connection is not Connection.SSH:
        pytest.skip("there is no other member to look at")
    port = str(peer.ssh.port or 22)
    options = "-o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/dev/null -o ConnectTimeout=5"
    # An exit code of 255 means to testinfra that its own connection broke.
    look = f"ssh {options} -o PreferredAuthentications=none -p %s %s true || test $? -eq 255"
    output = host.run(look, port, peer.address).stderr
    assert "Host key verification failed" not in output, output
    if "Permission denied" not in output:
        pytest.skip(f"{name} does not reach {peer.name}: {output.strip()}")


def test_the_keys_of_the_cluster_may_log_in(state: RoleState, as_root: Host) -> None:
    blocks = [block for block in state.blocks if block.path != KNOWN_HOSTS]
    if not blocks:
        pytest.skip("no key of the cluster is wanted (ssh_access_authorized_keys)")
    for block in blocks:
        file = as_root.file(block.path)
        assert set(block.content.splitlines()) <= set(file.content_string.splitlines())
        assert file.mode & 0o022 == 0, "sshd obeys no file that others can write"
