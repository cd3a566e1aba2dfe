"""The output of `ansible-inventory --list`: groups, hosts in inventory order, and the variables of each host."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pylaunch.base.dataclass import dataclass


@dataclass(frozen=True)
class InventoryGroup:
    """A group's own hosts and its child groups, both in inventory order."""

    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """An inventory as Ansible parsed it. Templates in values are not rendered."""

    groups: Mapping[str, InventoryGroup]
    variables: Mapping[str, Mapping[str, object]]
    """Per host, group variables merged in."""

    @classmethod
    def parse(cls, text: str) -> "Listing":
        """Parse the JSON that `ansible-inventory --list` prints."""
        answer: dict[str, Any] = json.loads(text)
        variables: dict[str, dict[str, object]] = answer.pop("_meta", {}).get("hostvars", {})
        groups = {
            name: InventoryGroup(tuple(body.get("hosts", ())), tuple(body.get("children", ())))
            for name, body in answer.items()
        }
        mentioned = [child for group in groups.values() for child in group.children]
        return cls({**{name: InventoryGroup() for name in mentioned}, **groups}, variables)

    def hosts_of(self, group: str) -> tuple[str, ...]:
        """Return all hosts in `group` and below it, in Ansible's order: own hosts first, then level by level."""
        found: dict[str, None] = {}
        level: Sequence[str] = (group,)
        seen = {group}
        while level:
            below: list[str] = []
            for name in level:
                found.update(dict.fromkeys(self.groups[name].hosts))
                below += [child for child in self.groups[name].children if child not in seen]
                seen.update(below)
            level = below
        return tuple(found)
