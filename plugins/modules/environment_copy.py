"""Copy the members of an environment's archive that a host needs. plugins/action/environment_copy.py does the work."""

DOCUMENTATION = r"""
module: environment_copy
short_description: Copy the members of an environment's archive that a host needs
version_added: 0.1.0
description:
  - Builds a tar archive of some members of a local one, once for all hosts that need the same, and copies it.
options:
  archive:
    description: The archive on the controller.
    type: path
    required: true
  members:
    description: Members that the host needs, as the module M(pylaunch.cluster.environment) returns them.
    type: list
    elements: str
    required: true
  all_members:
    description: All members of the archive.
    type: list
    elements: str
    required: true
  dest:
    description: Path of the copy on the host.
    type: path
    required: true
attributes:
  check_mode:
    description: Reports whether the copy would change, as M(ansible.builtin.copy) does.
    support: full
author:
  - The pylaunch authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Copy the wheels that the host lacks
  pylaunch.cluster.environment_copy:
    archive: environment/environment.tar
    members: "{{ plan.members }}"
    all_members: "{{ manifest.files.keys() | list }}"
    dest: "{{ plan.archive }}"
"""

RETURN = r"""
dest:
  description: Path of the copy on the host.
  type: str
  returned: success
"""
