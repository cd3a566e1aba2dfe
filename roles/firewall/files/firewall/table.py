"""The rules as values, and the nftables table that has them.

Accepting a packet in a table does not overrule other tables; rejecting does.
"""

from __future__ import annotations

import ipaddress
import json
import os
from typing import Iterator, List, NamedTuple, Optional, Tuple

from host import forget, is_enabled, run, sha256, text_of, write

TABLE = "inet pylaunch"
SETS = {4: "members4", 6: "members6"}
"""IP version to the set with the members that have an address of it."""

BOOT_SCRIPT = "/var/lib/pylaunch/firewall/confirmed.nft"
LOAD_UNIT = "pylaunch-firewall.service"


class Wanted(NamedTuple):
    """Rules that the role wants on this host, with its ephemeral range inserted."""

    members: List[str]
    closed: List[str]
    """TCP ports that only members may open: `29500` or `29400-29599`."""

    ssh_ports: List[int]
    ephemeral: str
    rules: str

    @property
    def digest(self) -> str:
        """Digest of everything except the members."""
        return sha256(json.dumps([self.closed, self.ssh_ports, self.rules]))


class Live(NamedTuple):
    """Active rules."""

    rules: str
    """Digest of everything except the members."""

    members: List[str]


def bounds(ports: str) -> Tuple[int, int]:
    """Return the first and last port of `29500` or `29400-29599`."""
    first, _, last = ports.partition("-")
    return int(first), int(last or first)


def live() -> Optional[Live]:
    """Read the table from the kernel; None if it does not exist."""
    if "table " + TABLE not in run(["nft", "list", "tables"]).splitlines():
        return None
    members, rules = [], []
    for entry in json.loads(run(["nft", "--json", "list", "table", *TABLE.split()]))["nftables"]:
        ((kind, body),) = entry.items()
        if kind == "metainfo":
            continue
        body.pop("handle", None)
        if kind == "set" and body["name"] in SETS.values():
            members += body.pop("elem", [])
        rules.append([kind, body])
    return Live(sha256(json.dumps(rules, sort_keys=True)), sorted(members))


def snapshot(directory: str) -> None:
    """Write a script that restores the current table."""
    text = "" if live() is None else run(["nft", "--stateless", "list", "table", *TABLE.split()])
    write(directory + "/before.nft", _without_table() + text)


def restore(directory: str) -> None:
    """Run the script of `snapshot`."""
    run(["nft", "--file", directory + "/before.nft"])


def apply(wanted: Wanted, *, only_members: bool) -> None:
    """Apply `wanted` in one transaction."""
    text = _members_script(wanted) if only_members else script(wanted)
    run(["nft", "--check", "--file", "-"], text)
    run(["nft", "--file", "-"], text)


def persist(wanted: Wanted) -> None:
    """Load the rules at every boot."""
    write(BOOT_SCRIPT, script(wanted))
    run(["systemctl", "--quiet", "enable", "--now", LOAD_UNIT])


def is_persistent(wanted: Wanted) -> bool:
    """Return True if the next boot loads exactly these rules."""
    return text_of(BOOT_SCRIPT) == script(wanted) and is_enabled(LOAD_UNIT)


def remove() -> None:
    """Remove the table and the boot script."""
    if os.path.exists("/etc/systemd/system/" + LOAD_UNIT):
        run(["systemctl", "--quiet", "disable", "--now", LOAD_UNIT])
    run(["nft", "--file", "-"], _without_table())
    forget(BOOT_SCRIPT)


def script(wanted: Wanted) -> str:
    """Return a script that replaces the whole table."""
    return _without_table() + wanted.rules + "".join(_elements("add", wanted.members))


def _without_table() -> str:
    # Declaring the table first prevents an error if it does not exist.
    return "table %s\ndelete table %s\n" % (TABLE, TABLE)


def _members_script(wanted: Wanted) -> str:
    now = live()
    there = now.members if now is not None else []
    added = [each for each in wanted.members if each not in there]
    removed = [each for each in there if each not in wanted.members]
    return "".join([*_elements("add", added), *_elements("delete", removed)])


def _elements(verb: str, members: List[str]) -> Iterator[str]:
    for version, name in SETS.items():
        elements = [each for each in members if ipaddress.ip_address(each).version == version]
        if elements:
            yield "%s element %s %s { %s }\n" % (verb, TABLE, name, ", ".join(elements))
