"""Settings that every host of a training cluster shares."""

from __future__ import annotations

import functools
import ipaddress

import pytest
from conftest import Members, RoleVariables
from testinfra.host import Host

from pylaunch.model.cluster import Connection
from pylaunch.model.hostset import is_address

pytestmark = pytest.mark.role("host_baseline")


LIMITS = ("memlock", "nofile", "stack")
CAP_SYS_RESOURCE = 1 << 24


@functools.cache
def limits(login: Host, kind: str) -> dict[str, str]:
    """All soft (S) or hard (H) limits of one login to the host."""
    shown = login.check_output(f"bash -c 'ulimit -{kind} -l; ulimit -{kind} -n; ulimit -{kind} -s'").split()
    return dict(zip(LIMITS, shown, strict=True))


@pytest.mark.parametrize("limit", LIMITS)
def test_a_fresh_login_gets_the_limit(
    limit: str, variables: RoleVariables, fresh_login: Host, members: Members, name: str, capabilities: int
) -> None:
    if members.cluster[name].connection is Connection.LOCAL:
        pytest.skip("nobody logs in to this machine itself")
    wanted = {
        "memlock": "unlimited",
        "nofile": str(variables["host_baseline_nofile"]),
        "stack": str(variables["host_baseline_stack_kib"]),
    }[limit]
    got, most = limits(fresh_login, "S")[limit], limits(fresh_login, "H")[limit]
    is_capped = most != "unlimited" and (wanted == "unlimited" or int(most) < int(wanted))
    if got != wanted and is_capped and not capabilities & CAP_SYS_RESOURCE:
        pytest.skip(f"{limit} of a login stays {got}, wanted {wanted}: the container allows no more")
    assert got == wanted


def test_kernel_settings_are_live_or_read_only(variables: RoleVariables, host: Host) -> None:
    for key, wanted in variables["host_baseline_sysctls"].items():
        path = "/proc/sys/" + key.replace(".", "/")
        if host.file(path).exists and "ro" not in host.check_output("findmnt -no OPTIONS --target %s", path).split(","):
            assert host.file(path).content_string.split() == str(wanted).split(), key


def test_files_of_the_role_hold_its_variables(variables: RoleVariables, host: Host) -> None:
    limits_d = host.file("/etc/security/limits.d/90-pylaunch.conf")
    assert limits_d.content_string.count(f"nofile {variables['host_baseline_nofile']}\n") == 2
    assert (limits_d.mode, limits_d.user) == (0o644, "root")
    text = host.file("/etc/systemd/system.conf.d/90-pylaunch.conf").content_string
    assert f"DefaultLimitNOFILE={variables['host_baseline_nofile']}\n" in text
    sysctls = host.file("/etc/sysctl.d/90-pylaunch.conf").content_string.splitlines()
    assert {f"{key} = {value}" for key, value in variables["host_baseline_sysctls"].items()} <= set(sysctls)


def test_shared_memory_is_large_enough(variables: RoleVariables, host: Host) -> None:
    size = int(host.check_output("df --output=size --block-size=1M /dev/shm | tail -1"))
    assert size >= variables["host_baseline_shm_minimum_mib"]


def test_a_host_finds_itself_where_its_peers_do(
    variables: RoleVariables, host: Host, members: Members, name: str
) -> None:
    if not (variables.is_on("host_baseline_manage_hosts") and is_address(members.cluster[name].rank_address)):
        pytest.skip("/etc/hosts is not ours, or the inventory names no address")
    answers = host.check_output('getent ahostsv4 "$(uname -n)"').splitlines()
    addresses = {line.split()[0] for line in answers}
    assert addresses
    assert not any(ipaddress.ip_address(address).is_loopback for address in addresses)
    assert addresses & set(host.check_output("hostname --all-ip-addresses").split())
