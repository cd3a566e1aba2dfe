#!/usr/bin/python
"""Determine how a host reaches its peers, and the content of the files that tell NCCL."""

from __future__ import annotations

DOCUMENTATION = r"""
module: communication
short_description: Determine the interface, adapters and variables for traffic to the other members of a cluster
version_added: 0.1.0
description:
  - Asks the kernel over which interface it reaches the other members, reads the RDMA adapters of the host, and returns
    the content of C(/etc/nccl.conf) and of C(/etc/pylaunch/environment.json). Changes nothing.
options:
  peers:
    description: Addresses or names of the members.
    type: list
    elements: str
    required: true
  interface:
    description: Interface of rank traffic; empty means the one that leads to the peers.
    type: str
    default: ""
  profile:
    description: Kind of network; C(auto) detects it.
    type: str
    choices: [auto, infiniband, roce, ethernet, loopback]
    default: auto
  hcas:
    description: Adapters as C(name) or C(name:port); empty means the fastest active ones.
    type: list
    elements: str
    default: []
  variables:
    description: Additional variables, each with one line of text, which override those of the profile.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
author:
  - The pylaunch authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Determine the interface to the other members
  pylaunch.cluster.communication:
    peers: [10.0.0.1, 10.0.0.2]
  register: network
"""

RETURN = r"""
files:
  description: Files for the host, each with C(path), C(content), and C(foreign), true where somebody else wrote the
    file that exists.
  type: list
  elements: dict
  returned: success
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pylaunch.cluster.plugins.module_utils.interfaces import UndecidedError, is_foreign, wanted


def main() -> None:
    """Answer for this host."""
    module = AnsibleModule(
        argument_spec={
            "peers": {"type": "list", "elements": "str", "required": True},
            "interface": {"type": "str", "default": ""},
            "profile": {
                "type": "str",
                "choices": ["auto", "infiniband", "roce", "ethernet", "loopback"],
                "default": "auto",
            },
            "hcas": {"type": "list", "elements": "str", "default": []},
            "variables": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    texts = {name: str(value) for name, value in module.params["variables"].items()}
    for name, value in module.params["variables"].items():
        is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name) or not is_text or "\n" in texts[name]:
            module.fail_json(
                msg="nccl_env_variables: %s: expected a name and one line of text. YAML makes a boolean of true, false,"
                " yes and no: put them in quotes" % name
            )
    try:
        answer = wanted({**module.params, "variables": texts})
    except UndecidedError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        files=[
            {"path": path, "content": content, "foreign": is_foreign(path)}
            for path, content in sorted(answer["files"].items())
        ],
    )


if __name__ == "__main__":
    main()
