"""Settings that every host of a training cluster shares."""

from __future__ import annotations

import functools
import ipaddress

import pytest
from testinfra.host import Host

from pylaunch.provision.state import RoleState

pytestmark = pytest.mark.role("host_baseline")


LIMITS = ("memlock", "nofile", "stack")


@functools.cache
def limits(login: Host) -> dict[str, str]:
    """All limits of one login to the host."""
    return dict(zip(LIMITS, login.check_output("bash -c 'ulimit -l; ulimit -n; ulimit -s'").split(), strict=True))


@pytest.mark.parametrize("limit", LIMITS)
def test_a_fresh_login_gets_the_limit(limit: str, state: RoleState, fresh_login: Host, notes: set[str]) -> None:
    if limit not in state.limits:
        pytest.skip("nobody logs in to this machine itself")
    got, wanted = limits(fresh_login)[limit], state.limits[limit]
    cannot_be_had = f"{limit} of a login stays {got}, wanted {wanted}: the container allows no more"
    if cannot_be_had in notes:
        pytest.skip(cannot_be_had)
    assert got == wanted


def test_a_host_finds_itself_where_its_peers_do(state: RoleState, host: Host) -> None:
    if not state.blocks:
        pytest.skip("/etc/hosts is not ours, or the inventory names no address")
    answers = host.check_output('getent ahostsv4 "$(uname -n)"').splitlines()
    addresses = {line.split()[0] for line in answers}
    assert addresses
    assert not any(ipaddress.ip_address(address).is_loopback for address in addresses)
    assert addresses & set(host.check_output("hostname --all-ip-addresses").split())


def test_lines_of_others_in_etc_hosts_stay(state: RoleState, host: Host) -> None:
    assert host.file("/etc/hosts").contains("localhost")
