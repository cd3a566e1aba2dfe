#!/usr/bin/python
"""Record what a role manages on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: manifest
short_description: Record what a role manages on a host
version_added: 0.1.0
description:
  - Reads the state of files, units, packages and settings as a role has left them, and writes it to one file of the
    host. C(pylaunch provision) and C(pylaunch check) compare it with the host later. In check mode, nothing is written.
options:
  role:
    description: The role. Its earlier entry is replaced.
    type: str
    required: true
  state:
    description:
      - C(begun) notes that the role has begun; the task is changed if an earlier run of the role began and did not end,
        so that handlers which it did not reach can be notified. C(absent) removes the entry, and the manifest with its
        last one. Neither C(present) nor C(absent) counts as a change.
    type: str
    choices: [begun, present, absent]
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
      - Kind to names. A C(file) must be there, as a regular file. A C(path) is a file, a link, a device or a directory,
        and may be missing; a C(block) is a path and a marker with C({mark}), on two lines; a C(line) is a path and the
        beginning of a line, on two lines. The others are C(unit), C(package), C(hold), C(sysctl), C(environment) and
        C(route), an address.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Returns whether an earlier run did not end, and writes nothing.
    support: full
author:
  - The pylaunch authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Begin
  pylaunch.cluster.manifest:
    role: time_sync
    state: begun
  notify: Restart chrony

- name: Record what the role manages
  pylaunch.cluster.manifest:
    role: time_sync
    managed:
      package: [chrony]
      unit: [chrony.service]
"""

RETURN = r"""
managed:
  description: Kind to name to state.
  type: dict
  returned: with state present
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pylaunch.cluster.plugins.module_utils.managed import managed, read_manifest

EMPTY = {"inputs": "", "notes": [], "managed": {}}


def main() -> None:
    """Replace the entry of a role."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["begun", "present", "absent"], "default": "present"},
            "path": {"type": "path", "default": "/var/lib/pylaunch/manifest.json"},
            "inputs": {"type": "str", "default": ""},
            "notes": {"type": "list", "elements": "str", "default": []},
            "managed": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    role, state = module.params["role"], module.params["state"]
    try:
        roles = before = read_manifest(module.params["path"])
    except ValueError:
        roles, before = {}, None
    earlier = roles.get(role, EMPTY)
    roles = {name: each for name, each in roles.items() if name != role}
    answer = {"changed": state == "begun" and "unfinished" in earlier}
    if state == "begun":
        roles[role] = {**earlier, "unfinished": True}
    elif state == "present" and not module.check_mode:
        answer["managed"] = now = recorded(module)
        inputs = module.params["inputs"] or (earlier["inputs"] if earlier["managed"] == now else "")
        roles[role] = {"inputs": inputs, "notes": module.params["notes"], "managed": now}
    if roles != before and not module.check_mode:
        write(module, roles)
    module.exit_json(**answer)


def recorded(module):
    """Return the state of what the role manages; fail where a file of the role is none."""
    asked = dict(module.params["managed"])
    try:
        now = managed(asked)
    except ValueError as error:
        module.fail_json(msg=str(error))
    for path, found in now.get("file", {}).items():
        if " sha256 " not in found:
            module.fail_json(msg="%s is not a file: %s" % (path, found))
    return now


def write(module, roles):
    """Replace the manifest, which everybody may read."""
    path = module.params["path"]
    if not roles:
        if os.path.exists(path):
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
