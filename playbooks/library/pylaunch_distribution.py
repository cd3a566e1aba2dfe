#!/usr/bin/python
"""Ansible module of the playbooks: the distribution. Imports nothing of Ansible, as `pylaunch_files`."""

from __future__ import annotations

import json
import shlex

DOCUMENTATION = r"""
module: pylaunch_distribution
short_description: Read the distribution of a host
description:
  - Sets the facts C(os_family), C(distribution) and C(distribution_version), which are all that the roles use.
    C(ansible.builtin.setup) also searches for hardware to know them.
attributes:
  check_mode:
    support: full
author:
  - The pylaunch authors
"""

EXAMPLES = r"""
- name: Read the distribution
  pylaunch_distribution:
"""

RETURN = r"""
ansible_facts:
  description: The facts.
  type: dict
  returned: always
"""

# Ansible puts its arguments here, which makes this a module for it: <<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>
FAMILIES = {"debian": "Debian", "ubuntu": "Debian", "rhel": "RedHat", "fedora": "RedHat", "centos": "RedHat"}


def main():
    """Report the facts."""
    with open("/etc/os-release", encoding="utf-8") as source:
        values = dict(word.split("=", 1) for word in shlex.split(source.read(), comments=True) if "=" in word)
    ids = [values.get("ID", "linux"), *values.get("ID_LIKE", "").split()]
    facts = {
        "os_family": next((FAMILIES[each] for each in ids if each in FAMILIES), ids[0]),
        "distribution": values.get("NAME", ids[0]),
        "distribution_version": values.get("VERSION_ID", ""),
    }
    print(json.dumps({"changed": False, "ansible_facts": facts}))


if __name__ == "__main__":
    main()
