"""Ports that members alone may open, read from what the kernel has and not from the program that put it there."""

from __future__ import annotations

import json
import re

import pytest
from conftest import LISTING, RoleVariables
from testinfra.host import Host

from pylaunch.inventory.cluster import Listing

pytestmark = pytest.mark.role("firewall")


@pytest.fixture
def wanted(variables: RoleVariables) -> RoleVariables:
    """The role, where it is on."""
    if not variables.is_on("firewall_enabled"):
        pytest.skip("no firewall is wanted here (firewall_enabled)")
    return variables


def addresses(wanted: RoleVariables, listing: Listing) -> set[str]:
    """Addresses of the members, from the inventory."""
    found = {str(each) for each in wanted["firewall_guests"]}
    for member in listing.hosts_of("cluster" if "cluster" in listing.groups else "all"):
        own = listing.variables.get(member, {})
        found |= {str(own[key]) for key in ("fabric_address", "ansible_host") if own.get(key)}
        found |= set() if own.get("ansible_host") else {member}
    return found


def admitted(host: Host) -> set[str]:
    """Addresses that rules of the kernel let in as members."""
    found: set[str] = set()
    for version in (4, 6):
        listed = json.loads(host.check_output(f"nft --json list set inet pylaunch members{version}"))
        found |= {address for entry in listed["nftables"] for address in entry.get("set", {}).get("elem", [])}
    return found


def closed(host: Host) -> str:
    """The rules of the kernel that close ports to strangers, as text."""
    return str(host.check_output("nft list chain inet pylaunch input"))


def test_the_kernel_lets_every_member_in_and_nobody_else(
    wanted: RoleVariables, as_root: Host, pytestconfig: pytest.Config
) -> None:
    assert admitted(as_root) == addresses(wanted, pytestconfig.stash[LISTING])


def test_the_ports_of_ranks_are_closed_to_strangers(wanted: RoleVariables, as_root: Host) -> None:
    rules = closed(as_root)
    ephemeral = "-".join(as_root.check_output("cat /proc/sys/net/ipv4/ip_local_port_range").split())
    for ports in wanted["firewall_member_ports"]:
        assert str(ports).replace("ephemeral", ephemeral) in rules


def test_ssh_is_open_to_everyone(wanted: RoleVariables, as_root: Host, fresh_login: Host) -> None:
    rules = closed(as_root)
    ports = ", ".join(str(port) for port in wanted["firewall_ssh_ports"])
    accepted = re.search(rf"tcp dport (\{{ )?{ports}( \}})? accept", rules)
    assert accepted is not None
    assert accepted.start() < rules.index("members_only"), "it must come first"
    assert fresh_login.run("true").rc == 0


def test_the_next_boot_brings_them_back(wanted: RoleVariables, as_root: Host) -> None:
    assert as_root.run("systemctl is-enabled pylaunch-firewall.service").stdout.strip() == "enabled"
