"""Ansible module of the role nccl_env: determine how a host reaches its peers, and the content of its files."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pylaunch_interfaces_library import UndecidedError, is_foreign, wanted

DOCUMENTATION = r"""
module: pylaunch_communication
short_description: Determine the interface, adapters and variables for traffic to the other members of a cluster
description:
  - Changes nothing. Returns C(files), each with C(path), C(content) and C(mode), and C(foreign), the paths of existing
    files that somebody else wrote.
options:
  desired:
    description: The entry of C(nccl_env_desired.communications).
    required: true
    type: dict
"""


def main():
    module = AnsibleModule(argument_spec={"desired": {"type": "dict", "required": True}}, supports_check_mode=True)
    desired = module.params["desired"]
    question = {**desired, "variables": {name: str(value) for name, value in desired["variables"].items()}}
    try:
        answer = wanted(question)
    except UndecidedError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        profile=answer["profile"],
        interface=answer["interface"],
        files=[{"path": path, "content": content, "mode": "0644"} for path, content in sorted(answer["files"].items())],
        foreign=[path for path in answer["files"] if is_foreign(path)],
    )


if __name__ == "__main__":
    main()
