"""nftables backend, for hosts on which firewalld is not active."""

from __future__ import annotations

import ipaddress
import json
import os
from typing import Iterator, List, Optional

from host import forget, is_enabled, run, sha256, text_of, write
from rules import Live, Wanted

BOOT_SCRIPT = "/var/lib/pylaunch/firewall/confirmed.nft"
LOAD_UNIT = "pylaunch-firewall.service"


class Nftables:
    """A separate table. Accepting a packet in it does not overrule other tables; rejecting does."""

    name = "nftables"
    table = "inet pylaunch"
    sets = ((4, "members4"), (6, "members6"))

    def live(self) -> Optional[Live]:
        """Read the table from the kernel; None if it does not exist."""
        if "table " + self.table not in run(["nft", "list", "tables"]).splitlines():
            return None
        members, rules = [], []
        for entry in json.loads(run(["nft", "--json", "list", "table", *self.table.split()]))["nftables"]:
            ((kind, body),) = entry.items()
            if kind == "metainfo":
                continue
            body.pop("handle", None)
            if kind == "set" and body["name"] in dict(self.sets).values():
                members += body.pop("elem", [])
            rules.append([kind, body])
        return Live(sha256(json.dumps(rules, sort_keys=True)), sorted(members))

    def snapshot(self, directory: str) -> None:
        """Write a script that restores the current table."""
        text = "" if self.live() is None else run(["nft", "--stateless", "list", "table", *self.table.split()])
        write(directory + "/before.nft", self._without_table() + text)

    def restore(self, directory: str) -> None:
        """Run the script of `snapshot`."""
        run(["nft", "--file", directory + "/before.nft"])

    def apply(self, wanted: Wanted, *, only_members: bool) -> None:
        """Apply `wanted` in one transaction."""
        script = self._members_script(wanted) if only_members else self.script(wanted)
        run(["nft", "--check", "--file", "-"], script)
        run(["nft", "--file", "-"], script)

    def persist(self, wanted: Wanted) -> None:
        """Load the rules at every boot."""
        write(BOOT_SCRIPT, self.script(wanted))
        run(["systemctl", "--quiet", "enable", "--now", LOAD_UNIT])

    def is_persistent(self, wanted: Wanted) -> bool:
        """Return True if the next boot loads exactly these rules."""
        return text_of(BOOT_SCRIPT) == self.script(wanted) and is_enabled(LOAD_UNIT)

    def remove(self) -> None:
        """Remove the table and the boot script."""
        if os.path.exists("/etc/systemd/system/" + LOAD_UNIT):
            run(["systemctl", "--quiet", "disable", "--now", LOAD_UNIT])
        run(["nft", "--file", "-"], self._without_table())
        forget(BOOT_SCRIPT)

    def script(self, wanted: Wanted) -> str:
        """Return a script that replaces the whole table."""
        return self._without_table() + wanted.rules + "".join(self._elements("add", wanted.members))

    def _without_table(self) -> str:
        # Declaring the table first prevents an error if it does not exist.
        return "table %s\ndelete table %s\n" % (self.table, self.table)

    def _members_script(self, wanted: Wanted) -> str:
        live = self.live()
        there = live.members if live is not None else []
        added = [each for each in wanted.members if each not in there]
        removed = [each for each in there if each not in wanted.members]
        return "".join([*self._elements("add", added), *self._elements("delete", removed)])

    def _elements(self, verb: str, members: List[str]) -> Iterator[str]:
        for version, name in self.sets:
            elements = [each for each in members if ipaddress.ip_address(each).version == version]
            if elements:
                yield "%s element %s %s { %s }\n" % (verb, self.table, name, ", ".join(elements))
