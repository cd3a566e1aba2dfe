#!/usr/bin/python
"""Ansible module: record what a role manages on a host."""

from __future__ import annotations

import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pylaunch_managed_library import managed, read_manifest

DOCUMENTATION = r"""
module: pylaunch_manifest
short_description: Record what a role manages on a host
description:
  - Reads the state of files, units, packages and settings as a role has left them, and writes it to one file of the
    host. C(pylaunch provision) and C(pylaunch check) compare it with the host later. In check mode, nothing is done.
options:
  role:
    description: The role. Its earlier entry is replaced.
    type: str
    required: true
  state:
    description: C(absent) removes the entry, and the manifest with its last one.
    type: str
    choices: [present, absent]
    default: present
  path:
    description: The manifest.
    type: path
    default: /var/lib/pylaunch/manifest.json
  inputs:
    description:
      - Digest of what the role was given. Without one, that of the earlier entry is kept if the state is the same;
        else the next C(pylaunch provision) runs the role.
    type: str
    default: ""
  notes:
    description: Settings that this host cannot have.
    type: list
    elements: str
    default: []
  managed:
    description:
      - Kind to names. A C(path) is a file, a link, a device or a directory, and may be missing; a C(block) is a path
        and a marker with C({mark}), on two lines; a C(line) is a path and the beginning of a line, on two lines. The
        others are C(unit), C(package), C(hold), C(sysctl), C(environment) and C(route), an address.
    type: dict
    default: {}
attributes:
  check_mode:
    support: none
author:
  - The pylaunch authors
"""

EXAMPLES = r"""
- name: Record what the role manages
  pylaunch_manifest:
    role: time_sync
    managed:
      package: [chrony]
      unit: [chrony.service]
"""

RETURN = r"""
managed:
  description: Kind to name to state.
  type: dict
  returned: success
"""


def main() -> None:
    """Replace the entry of a role."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "path": {"type": "path", "default": "/var/lib/pylaunch/manifest.json"},
            "inputs": {"type": "str", "default": ""},
            "notes": {"type": "list", "elements": "str", "default": []},
            "managed": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    asked = module.params
    if module.check_mode:
        module.exit_json(changed=False)
    try:
        roles = before = read_manifest(asked["path"])
    except ValueError:
        roles, before = {}, None
    entry = None
    if asked["state"] == "present":
        now = managed(asked["managed"])
        earlier = roles.get(asked["role"], {"managed": None})
        inputs = asked["inputs"] or (earlier["inputs"] if earlier["managed"] == now else "")
        entry = {"inputs": inputs, "notes": asked["notes"], "managed": now}
    roles = {
        **{role: each for role, each in roles.items() if role != asked["role"]},
        **({asked["role"]: entry} if entry else {}),
    }
    if roles != before:
        write(module, asked["path"], roles)
    module.exit_json(changed=roles != before, managed=entry["managed"] if entry else {})


def write(module, path, roles):
    """Replace the manifest, which everybody may read."""
    if not roles:
        os.unlink(path)
        return
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory, mode=0o755)
    aside = os.path.join(directory, ".manifest.json")
    with open(aside, "w", encoding="utf-8") as sink:
        json.dump({"version": 1, "roles": roles}, sink, sort_keys=True)
    os.chmod(aside, 0o644)
    module.atomic_move(aside, path)


if __name__ == "__main__":
    main()
