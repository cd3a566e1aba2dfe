"""Members reach each other over SSH: they know each other's host keys, and sshd has room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import LISTING, Members, RoleVariables
from testinfra.host import Host

pytestmark = pytest.mark.role("ssh_access")

KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"


def test_sshd_has_room_for_the_whole_cluster(variables: RoleVariables, as_root: Host) -> None:
    if not variables.is_on("ssh_access_manage_sshd"):
        pytest.skip("another tool owns sshd's configuration (ssh_access_manage_sshd)")
    effective = as_root.check_output("/usr/sbin/sshd -T -C user=root,host=localhost,addr=127.0.0.1").splitlines()
    assert f"maxstartups {variables['ssh_access_max_startups']}" in effective
    assert f"maxsessions {variables['ssh_access_max_sessions']}" in effective


def trusted(members: Members) -> set[tuple[str, str]]:
    """Places of members (addresses, [address]:port) and their keys in the project's known_hosts."""
    file = Path(members.cluster.known_hosts or "")
    lines = [line.split(None, 1) for line in file.read_text().splitlines() if line.strip()] if file.is_file() else []
    addresses = {each.address if each.ssh.port in (None, 22) else f"[{each.address}]:{each.ssh.port}"
                 for each in members.cluster.hosts}  # fmt: skip
    return {
        (place, " ".join(key.split()[:2])) for places, key in lines for place in places.split(",") if place in addresses
    }


def test_the_host_keys_of_members_are_where_every_user_looks(
    variables: RoleVariables, host: Host, members: Members
) -> None:
    keys = trusted(members)
    if not keys or variables.is_set("ssh_access_known_hosts_source"):
        pytest.skip("no host key is trusted yet (pylaunch trust)")
    places = sorted({place for place, _ in keys})
    ask = f'for place in {"%s " * len(places)}; do ssh-keygen -F "$place" -f {KNOWN_HOSTS}; done'
    found = re.findall("^# Host (.+) found: .*\n(.*)", host.run(ask, *places).stdout, re.MULTILINE)
    for place, key in sorted(keys):
        assert any(name == place and key in line for name, line in found), f"the key of {place} is not known"


def test_the_keys_of_the_cluster_may_log_in(
    variables: RoleVariables, as_root: Host, name: str, pytestconfig: pytest.Config
) -> None:
    wanted = variables["ssh_access_authorized_keys"]
    if not wanted:
        pytest.skip("no key of the cluster is wanted (ssh_access_authorized_keys)")
    login = pytestconfig.stash[LISTING].variables.get(name, {}).get("ansible_user", "root")
    user = variables["ssh_access_user"] if variables.is_set("ssh_access_user") else login
    home = "/root" if user == "root" else f"/home/{user}"
    usual = f"{home}/.ssh/authorized_keys"
    path = (
        variables["ssh_access_authorized_keys_path"] if variables.is_set("ssh_access_authorized_keys_path") else usual
    )
    file = as_root.file(path)
    assert {key.strip() for key in wanted} <= set(file.content_string.splitlines())
    assert file.mode & 0o022 == 0, "sshd obeys no file that others can write"
