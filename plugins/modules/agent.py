#!/usr/bin/python
"""Install pylaunch's agent on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: agent
short_description: Install pylaunch's agent on a host
version_added: 0.1.0
description:
  - Writes the agent to the node root under the hash of its content, so a second run changes nothing.
  - Keeps the newest agents, and those that run.
options:
  archive:
    description: The agent, base64.
    type: str
    required: true
  version:
    description: First 16 hexadecimal digits of the SHA-256 of the agent.
    type: str
    required: true
  root:
    description: Node root. C({user}) in it becomes the numeric id of the connecting user.
    type: str
    required: true
  python:
    description: Interpreter that runs the agent, Python 3.8 or newer.
    type: str
    default: /usr/bin/python3
attributes:
  check_mode:
    description: The agent reports whether it would be installed.
    support: full
author:
  - The pylaunch authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Install the agent
  pylaunch.cluster.agent:
    archive: "{{ lookup('ansible.builtin.file', 'agent.b64') }}"
    version: 0123456789abcdef
    root: /var/tmp/pylaunch-{user}
"""

RETURN = r"""
agent:
  description: Path of the agent.
  type: str
  returned: success
version:
  description: Version of the agent, by its content.
  type: str
  returned: success
"""

import base64
import hashlib
import json
import os

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Verify the archive and run its installation."""
    module = AnsibleModule(
        argument_spec={
            "archive": {"type": "str", "required": True, "no_log": True},
            "version": {"type": "str", "required": True},
            "root": {"type": "str", "required": True},
            "python": {"type": "str", "default": "/usr/bin/python3"},
        },
        supports_check_mode=True,
    )
    version, python = module.params["version"], module.params["python"]
    archive = base64.b64decode(module.params["archive"])
    digest = hashlib.sha256(archive).hexdigest()[:16]
    if digest != version:
        module.fail_json(msg=f"the received archive has version {digest}, expected {version}")
    if not os.access(python, os.X_OK):
        module.fail_json(msg=f"no Python at {python}")
    aside = os.path.join(module.tmpdir, "agent.pyz")
    with open(aside, "wb") as sink:
        sink.write(archive)
    dry_run = ["--dry-run"] if module.check_mode else []
    words = [python, "-I", "-S", aside, "node", "--root", module.params["root"], *dry_run]
    code, out, err = module.run_command(words, handle_exceptions=True)
    try:
        answer = json.loads(out)
    except ValueError:
        module.fail_json(msg=f"the agent ended with exit code {code}: {(err or out).strip()[-2000:]}")
    if "error" in answer:
        module.fail_json(msg=answer["error"])
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
