"""ufw backend, for hosts on which ufw is enabled."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import List, Optional, Tuple

from host import run, sha256, text_of
from rules import Live, Wanted


class Ufw:
    """ufw rules with the role's comment: accept rules of members before all other rules, reject rules after them."""

    name = "ufw"
    files = ("/etc/ufw/user.rules", "/etc/ufw/user6.rules")
    comment = "pylaunch"
    everyone = ("0.0.0.0/0", "::/0")

    def live(self) -> Optional[Live]:
        """Read the rules for the role's ports from the kernel, including rules of others for these ports."""
        known = {(port, protocol) for _, protocol, port, _ in self._kept()}
        members, rules = set(), []
        for program, chain in (("iptables", "ufw-user-input"), ("ip6tables", "ufw6-user-input")):
            for line in run([program, "--list-rules", chain]).splitlines():
                port = re.search(r" --dports? (\S+)", line)
                protocol = re.search(r" -p (\S+)", line)
                if port is None or protocol is None or (port[1], protocol[1]) not in known:
                    continue
                source = re.search(r" -s (\S+?)(?:/32|/128)? ", line)
                if source is not None:
                    members.add(source[1])
                    line = line.replace(source[0], " -s member ")
                if line not in rules:
                    rules.append(line)
        return Live(sha256(json.dumps(sorted(rules))), sorted(members)) if rules else None

    def snapshot(self, directory: str) -> None:
        """Copy the rule files of ufw."""
        for path in self.files:
            shutil.copy2(path, directory)

    def restore(self, directory: str) -> None:
        """Restore the copies and reload ufw."""
        for path in self.files:
            shutil.copy2(os.path.join(directory, os.path.basename(path)), path)
        run(["ufw", "reload"])

    def apply(self, wanted: Wanted, *, only_members: bool) -> None:
        """Add missing rules and delete superfluous ones; `only_members` has no effect for ufw."""
        goal, kept = self._goal(wanted), self._kept()
        for rule in kept:
            if rule not in goal:
                run(["ufw", "delete", *self._words(rule)])
        for rule in goal:
            if rule not in kept:
                words = self._words(rule)
                run(["ufw", *(["prepend"] if rule[0] == "allow" else []), *words, "comment", self.comment])

    def persist(self, wanted: Wanted) -> None:
        """Do nothing, because ufw saves its rules."""

    def is_persistent(self, wanted: Wanted) -> bool:
        """Return True if ufw's files contain exactly the wanted rules."""
        return sorted(self._kept()) == sorted(self._goal(wanted))

    def remove(self) -> None:
        """Delete the rules with the role's comment."""
        for rule in self._kept():
            run(["ufw", "delete", *self._words(rule)])

    def _goal(self, wanted: Wanted) -> List[Tuple[str, str, str, str]]:
        """Return action, protocol, ports and source of every wanted rule."""
        ports = ",".join(each.replace("-", ":") for each in wanted.closed_beside_ssh)
        open_to_members = [("tcp", ports), *(("udp", str(port)) for port in wanted.udp_ports)]
        members = [("allow", protocol, port, member) for member in wanted.members for protocol, port in open_to_members]
        return [*members, ("reject", "tcp", ports, "any")]

    def _kept(self) -> List[Tuple[str, str, str, str]]:
        """Return the same for the rules in ufw's files."""
        found = []
        for path in self.files:
            for line in text_of(path).splitlines():
                words = line.split()
                if words[:3] == ["###", "tuple", "###"] and words[-1] == "comment=" + self.comment.encode().hex():
                    action, protocol, port, _, _, source = words[3:9]
                    rule = (action, protocol, port, "any" if source in self.everyone else source)
                    if rule not in found:
                        found.append(rule)
        return found

    def _words(self, rule: Tuple[str, str, str, str]) -> List[str]:
        action, protocol, port, source = rule
        return [action, "proto", protocol, "from", source, "to", "any", "port", port]
