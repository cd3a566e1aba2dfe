#!/usr/bin/python
"""Ansible module of several roles: write text files, and the directories that contain them, in one round trip."""

from __future__ import annotations

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pylaunch_files
short_description: Write several text files of root, and create the directories that contain them
description:
  - Does for a list of files what C(ansible.builtin.file) and C(ansible.builtin.copy) do in loops, which take four
    round trips and processes per file and host.
  - The directory of a file belongs to root with mode 0755; directories above it that exist stay as they are.
  - A file that cannot be written does not keep the others from being written.
options:
  files:
    description: Files, each with C(path), C(content) and C(mode). Other keys are ignored.
    type: list
    elements: dict
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author:
  - The pylaunch authors
"""

EXAMPLES = r"""
- name: Write files
  pylaunch_files:
    files:
      - path: /etc/chrony/conf.d/90-pylaunch.conf
        content: "makestep 1.0 3\n"
        mode: "0644"
"""

RETURN = r"""
paths:
  description: Directories and files that were changed.
  type: list
  elements: str
  returned: success
"""

DIRECTORY_MODE = "0755"


class Writer:
    """Writes files, or says in check mode what it would write."""

    def __init__(self, module):
        self.module = module
        self.paths = []
        self.diff = []

    def directory(self, path, is_parent=False):
        """Create a directory with those above it. The parent of a file that exists gets its owner and mode."""
        if os.path.isdir(path):
            if is_parent:
                self._own(path, DIRECTORY_MODE)
            return
        if path in self.paths:
            return
        self.directory(os.path.dirname(path))
        self.paths.append(path)
        if not self.module.check_mode:
            os.mkdir(path)
            self._own(path, DIRECTORY_MODE)

    def file(self, path, content, mode):
        """Replace a file whose content differs, atomically."""
        before = _content(path)
        if before != content:
            header = {"before_header": path, "after_header": path}
            self.diff.append({"before": before or "", "after": content, **header})
            self.paths.append(path)
            if self.module.check_mode:
                return
            self._replace(path, content)
        self._own(path, mode)

    def _replace(self, path, content):
        if os.path.isdir(path):
            raise OSError("is a directory")
        descriptor, aside = tempfile.mkstemp(dir=self.module.tmpdir)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as sink:
            sink.write(content)
        self.module.atomic_move(aside, path)

    def _own(self, path, mode):
        wanted = {"owner": "root", "group": "root", "mode": mode}
        arguments = self.module.load_file_common_arguments(wanted, path)
        if self.module.set_fs_attributes_if_different(arguments, False) and path not in self.paths:
            self.paths.append(path)


def _content(path):
    """Return the text of a regular file; None for anything else."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8", errors="replace", newline="") as source:
        return source.read()


def main():
    """Write all files; report those that could not be written."""
    module = AnsibleModule(
        argument_spec={"files": {"type": "list", "elements": "dict", "required": True}}, supports_check_mode=True
    )
    writer = Writer(module)
    failures = []
    for each in module.params["files"]:
        try:
            writer.directory(os.path.dirname(each["path"]), is_parent=True)
            writer.file(each["path"], each["content"], each["mode"])
        except OSError as error:
            failures.append("%s: %s" % (each["path"], error.strerror or error))
    if failures:
        module.fail_json(msg="cannot write " + ", ".join(failures), paths=writer.paths)
    module.exit_json(changed=bool(writer.paths), paths=writer.paths, diff=writer.diff)


if __name__ == "__main__":
    main()
