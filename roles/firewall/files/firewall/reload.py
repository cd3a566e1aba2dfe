"""Reload firewalld and restore the runtime settings of others.

A reload discards everything that is not permanent: temporarily opened ports, bans of fail2ban, chains of container
engines, interfaces that were assigned to zones. Runs on the interpreter of firewall-cmd.
"""

from __future__ import annotations

import sys

from firewall.client import FirewallClient  # type: ignore[import-not-found]

OURS = ("pylaunch", "pylaunch-members4", "pylaunch-members6")


def main() -> None:
    """Reload, compare, and restore what is missing."""
    client = FirewallClient()
    zones = {name: client.getZoneSettings(name) for name in client.getZones()}
    policies = {name: client.getPolicySettings(name) for name in client.getPolicies() if name not in OURS}
    sets = {name: client.getEntries(name) for name in client.getIPSets() if name not in OURS}
    chains, rules = client.getAllChains(), client.getAllRules()
    passthroughs = client.getAllPassthroughs()
    client.reload()
    # Restore only what differs. Sets come first, because rules refer to them.
    for name in set(sets) & set(client.getIPSets()):
        if sorted(client.getEntries(name)) != sorted(sets[name]):
            client.setEntries(name, sets[name])
    for name in set(zones) & set(client.getZones()):
        client.setZoneSettings(name, zones[name])
    for name in set(policies) & set(client.getPolicies()):
        client.setPolicySettings(name, policies[name])
    for chain in _missing(chains, client.getAllChains()):
        client.addChain(*chain)
    for rule in _missing(rules, client.getAllRules()):
        client.addRule(*rule)
    for passthrough in _missing(passthroughs, client.getAllPassthroughs()):
        client.addPassthrough(*passthrough)


def _missing(before: list, after: list) -> list:
    return [each for each in before if each not in after]


if __name__ == "__main__":
    sys.exit(main())
