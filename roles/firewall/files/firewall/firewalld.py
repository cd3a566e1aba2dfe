"""firewalld backend: one policy and two address sets that apply before the zones. No zone is changed."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree
from typing import Any, Dict, Iterator, List, Optional, Tuple

from host import RefusedError, forget, is_active, is_enabled, run, sha256, text_of, write
from rules import Live, Wanted

UNIT = "firewalld.service"
SETTINGS = "/etc/firewalld/firewalld.conf"
FIREWALL_CMD = "/usr/bin/firewall-cmd"
OLDEST = (0, 9)
"""First release that supports policies."""


class Firewalld:
    """Write the files that firewalld reads at its start; read the resulting rules from the kernel."""

    name = "firewalld"
    policy = "/etc/firewalld/policies/pylaunch.xml"
    sets = ((4, "ipv4", "inet", "pylaunch-members4"), (6, "ipv6", "inet6", "pylaunch-members6"))
    """IP version, name of the family in rules, name of the family in sets, and name of the set of members."""

    table = "inet firewalld"
    chain = "filter_IN_policy_pylaunch"

    @classmethod
    def supported(cls) -> Firewalld:
        """Return the backend. Raises RefusedError if firewalld lacks policies or its rules cannot be read back."""
        version = run(["firewall-cmd", "--version"]).strip()
        if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
            raise RefusedError(
                "firewalld %s has no policies, which begin with 0.9: upgrade it, or set firewall_enabled=false for this"
                " host and open the ports to the members yourself" % version
            )
        backend = re.search(r"^FirewallBackend\s*=\s*(\w+)", text_of(SETTINGS), re.MULTILINE)
        if backend is not None and backend[1] != "nftables":
            raise RefusedError(
                "firewalld keeps its rules in %s, where they cannot be read back: set FirewallBackend=nftables in %s"
                " and restart firewalld, or set firewall_enabled=false for this host" % (backend[1], SETTINGS)
            )
        return cls()

    @property
    def files(self) -> List[str]:
        """Files of the role in the permanent configuration."""
        return [self.policy, *(self._set_file(name) for _, _, _, name in self.sets)]

    def live(self) -> Optional[Live]:
        """Read the role's chains and sets from the kernel, and whether a rule jumps to them."""
        if not self._has_table():
            return None
        members: List[str] = []
        rules: List[Any] = []
        is_reached = False
        for entry in json.loads(run(["nft", "--json", "list", "table", *self.table.split()]))["nftables"]:
            ((kind, body),) = entry.items()
            if kind == "set" and body["name"] in self._set_names():
                # An element is not a string if somebody added a range.
                members += [each if isinstance(each, str) else json.dumps(each) for each in body.get("elem", [])]
            elif kind == "rule" and re.match(self.chain + "(_(pre|log|deny|allow|post))?$", body["chain"]):
                rules.append([body["chain"], body["expr"]])
            elif kind == "rule" and {"jump": {"target": self.chain}} in body["expr"]:
                is_reached = True
        return Live(sha256(json.dumps([is_reached, rules], sort_keys=True)), sorted(members)) if rules else None

    def snapshot(self, directory: str) -> None:
        """Copy the role's files."""
        for path in filter(os.path.exists, self.files):
            shutil.copy2(path, directory)

    def restore(self, directory: str) -> None:
        """Restore the copies and reload firewalld."""
        for path in self.files:
            kept = os.path.join(directory, os.path.basename(path))
            if os.path.exists(kept):
                shutil.copy2(kept, path)
            else:
                forget(path)
        if is_active(UNIT):
            try:
                self._reload()
            except RefusedError:
                # Access to the host matters more than runtime settings of others.
                run(["firewall-cmd", "--reload"])

    def apply(self, wanted: Wanted, *, only_members: bool) -> None:
        """Write the permanent files and apply them: changed members directly, everything else with a reload."""
        live = self.live()
        for path, text in self._texts(wanted).items():
            write(path, text)
            os.chmod(path, 0o644)
        run(["firewall-cmd", "--check-config"])
        if not only_members or live is None:
            self._reload()
            return
        for version, _, _, name in self.sets:
            there = _of_version(version, live.members)
            goal = _of_version(version, wanted.members)
            words = ["--add-entry=" + each for each in goal if each not in there]
            words += ["--remove-entry=" + each for each in there if each not in goal]
            for word in words:
                run(["firewall-cmd", "--quiet", "--ipset=" + name, word])

    def persist(self, wanted: Wanted) -> None:
        """Do nothing, because `apply` writes the permanent files."""

    def is_persistent(self, wanted: Wanted) -> bool:
        """Return True if firewalld starts at boot and its files mean exactly `wanted`."""
        texts = self._texts(wanted).items()
        return is_enabled(UNIT) and all(_meaning(text_of(path)) == _meaning(text) for path, text in texts)

    def remove(self) -> None:
        """Remove the role's files."""
        if any(os.path.exists(path) for path in self.files):
            for path in self.files:
                forget(path)
                # firewalld's backup of a file that it changed.
                forget(path + ".old")
            if is_active(UNIT):
                self._reload()

    def _has_table(self) -> bool:
        return "table " + self.table in run(["nft", "list", "tables"]).splitlines()

    def _set_names(self) -> List[str]:
        return [name for _, _, _, name in self.sets]

    def _set_file(self, name: str) -> str:
        return "/etc/firewalld/ipsets/%s.xml" % name

    def _texts(self, wanted: Wanted) -> Dict[str, str]:
        texts = {self.policy: _document(self._policy(wanted))}
        for version, _, family, name in self.sets:
            root = ElementTree.Element("ipset", type="hash:ip")
            ElementTree.SubElement(root, "short").text = "Members of the cluster (pylaunch, role firewall)"
            ElementTree.SubElement(root, "option", name="family", value=family)
            for member in _of_version(version, wanted.members):
                ElementTree.SubElement(root, "entry").text = member
            texts[self._set_file(name)] = _document(root)
        return texts

    def _policy(self, wanted: Wanted) -> ElementTree.Element:
        root = ElementTree.Element("policy", target="CONTINUE", priority="-100")
        ElementTree.SubElement(root, "short").text = "Ports that members of the cluster alone may open (pylaunch)"
        ElementTree.SubElement(root, "ingress-zone", name="ANY")
        ElementTree.SubElement(root, "egress-zone", name="HOST")
        tcp = [("tcp", ports) for ports in wanted.closed_beside_ssh]
        udp = [("udp", str(port)) for port in wanted.udp_ports]
        for _, family, _, members in self.sets:
            # Without priorities, firewalld orders reject rules before accept rules.
            for protocol, ports in [*tcp, *udp]:
                rule = ElementTree.SubElement(root, "rule", family=family, priority="-1")
                ElementTree.SubElement(rule, "source", ipset=members)
                ElementTree.SubElement(rule, "port", port=ports, protocol=protocol)
                ElementTree.SubElement(rule, "accept")
            for protocol, ports in tcp:
                rule = ElementTree.SubElement(root, "rule", family=family, priority="1")
                ElementTree.SubElement(rule, "port", port=ports, protocol=protocol)
                ElementTree.SubElement(rule, "reject", type="tcp-reset")
        return root

    def _reload(self) -> None:
        """Reload firewalld and keep runtime settings of others."""
        if not self._has_table():
            # A reload fails half-way if somebody flushed the table that firewalld wants to delete.
            run(["nft", "add", "table", *self.table.split()])
        # firewalld's Python bindings are installed for the interpreter that runs firewall-cmd.
        interpreter = text_of(FIREWALL_CMD).splitlines()[0].lstrip("#!").split()[0]
        run([interpreter, "-IB", os.path.join(os.path.dirname(os.path.abspath(__file__)), "reload.py")])


def _of_version(version: int, members: List[str]) -> List[str]:
    return [each for each in members if ipaddress.ip_address(each).version == version]


def _document(root: ElementTree.Element) -> str:
    _indent(root, "\n")
    return '<?xml version="1.0" encoding="utf-8"?>\n%s\n' % ElementTree.tostring(root, encoding="unicode")


def _indent(element: ElementTree.Element, before: str) -> None:
    """Indent as firewalld does. ElementTree.indent needs Python 3.9."""
    children = list(element)
    for child in children:
        _indent(child, before + "  ")
        child.tail = before + "  "
    if children:
        element.text = before + "  "
        children[-1].tail = before


Meaning = Tuple[str, Tuple[Tuple[str, str], ...], str, Tuple[Any, ...]]


def _meaning(text: str) -> Optional[Meaning]:
    """Return the content of a file without its order and indentation; None if it is not valid XML."""
    try:
        return _meaning_of(ElementTree.fromstring(text.encode()))
    except ElementTree.ParseError:
        return None


def _meaning_of(element: ElementTree.Element) -> Meaning:
    def relevant() -> Iterator[Meaning]:
        for child in element:
            if child.tag not in ("short", "description"):
                yield _meaning_of(child)

    attributes = tuple(sorted(element.attrib.items()))
    return (element.tag, attributes, (element.text or "").strip(), tuple(sorted(relevant())))
