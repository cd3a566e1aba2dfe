#!/usr/bin/python
"""Ansible module of several roles: run a command. Imports nothing of Ansible, as `pylaunch_files`."""

from __future__ import annotations

import json
import os
import subprocess

DOCUMENTATION = r"""
module: pylaunch_command
short_description: Run a command
description:
  - Does what C(ansible.builtin.command) does with C(argv), at an eighth of its cost.
  - In check mode, it reports a change and runs nothing, unless the task has C(check_mode=false).
options:
  argv:
    description: The command. Its messages are in English.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    support: full
author:
  - The pylaunch authors
"""

EXAMPLES = r"""
- name: Read the host's own name
  pylaunch_command:
    argv: [uname, -n]
  changed_when: false
  check_mode: false
"""

RETURN = r"""
rc:
  description: The exit status.
  type: int
  returned: always
stdout:
  description: The output, without newlines at its end.
  type: str
  returned: always
stderr:
  description: The error output, without newlines at its end.
  type: str
  returned: always
"""

ARGUMENTS = r"""<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>"""


def main():
    """Run the command and report its end."""
    asked = json.loads(ARGUMENTS)
    answer = {"changed": True, "rc": 0, "stdout": "", "stderr": ""}
    if not asked["_ansible_check_mode"]:
        path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
        os.environ.update(LC_ALL="C.UTF-8", LANGUAGE="C", PATH=path)
        try:
            done = subprocess.run(
                [str(word) for word in asked["argv"]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            answer.update(rc=error.errno, msg=str(error))
        else:
            answer.update(rc=done.returncode, stdout=_text(done.stdout), stderr=_text(done.stderr))
            if done.returncode:
                answer["msg"] = "non-zero return code"
    print(json.dumps(answer))


def _text(output):
    return output.decode("utf-8", "replace").rstrip("\r\n")


if __name__ == "__main__":
    main()
