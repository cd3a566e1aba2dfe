#!/usr/bin/python
"""Ansible module of several roles: change files and the directories that contain them, in one round trip.

Ansible puts the arguments into this text, and Python compiles nothing but this text. A module that imports Ansible's
library compiles that on the host each time, which takes about eight times as long.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import re
import shutil
import stat
import sys
import tempfile

DOCUMENTATION = r"""
module: pylaunch_files
short_description: Write and remove several text files, and blocks and lines of text files of others
description:
  - Does what C(ansible.builtin.file), C(ansible.builtin.copy), C(ansible.builtin.blockinfile) and
    C(ansible.builtin.lineinfile) do in loops, which take a process and a round trip or more for each file and host.
  - The directory of one of C(files) belongs to root with mode 0755; directories above it that exist stay as they are.
  - A file that cannot be changed does not keep the others from being changed.
options:
  files:
    description:
      - Files of root, each with C(path), C(content) and C(mode).
      - One with C(only_where) is omitted where that path does not exist, one with C(only_without_capability) where
        processes can be given that capability. Other keys are ignored.
    type: list
    elements: dict
  blocks:
    description:
      - Blocks between two marker lines, each with C(path), C(marker) and C(content). C(@hostname@) in it becomes the
        name of the host. A block without content is removed.
      - C(owner) and C(mode) are those of the file, which keeps what it has without them. With C(owner), the file is
        changed with the rights of that user, who may have put a link in its place. With C(directory_mode), the
        directory of the file belongs to the same user, with this mode.
    type: list
    elements: dict
  absent_lines:
    description: Lines to remove, each with C(path) and C(regexp).
    type: list
    elements: dict
  absent_paths:
    description: Files and directories to remove.
    type: list
    elements: str
  absent_if_empty:
    description: Directories to remove after all else if they are empty. This is not reported as a change.
    type: list
    elements: str
  mark:
    description:
      - Directory to create before the first change. Where it exists already, an earlier run was interrupted, and this
        is reported as a change.
    type: path
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
  returned: always
replaced:
  description: Entries like those of C(files), which restore what was there.
  type: list
  elements: dict
  returned: always
created:
  description: Those of C(files) that did not exist.
  type: list
  elements: str
  returned: always
is_marked:
  description: C(mark) exists now.
  type: bool
  returned: always
"""

ARGUMENTS = r"""<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>"""
CAPABILITIES = {"CAP_SYS_TIME": 25}
DIRECTORY_MODE = 0o755
ROOT = (0, 0)


class Writer:
    """Changes files, or says in check mode what it would change."""

    def __init__(self, is_check, mark):
        self.is_check = is_check
        self.mark = mark
        self.was_interrupted = mark is not None and os.path.lexists(mark)
        self.paths = []
        self.diff = []
        self.replaced = []
        self.created = []

    def directory(self, path, owner=ROOT, mode=DIRECTORY_MODE, is_parent=False):
        """Create a directory with those above it. The parent of a file that exists gets its owner and mode."""
        if os.path.isdir(path):
            if is_parent:
                self._own(path, owner, mode)
            return
        if path in self.paths:
            return
        self.directory(os.path.dirname(path))
        if self._begin(path):
            os.mkdir(path)
            os.chown(path, *owner)
            os.chmod(path, mode)

    def file(self, path, content, mode):
        """Replace a file of root whose content differs."""
        self.directory(os.path.dirname(path), is_parent=True)
        before = _content(path)
        if before == content:
            self._own(path, ROOT, int(mode, 8))
        elif self._begin(path, before or "", content):
            if os.path.isdir(path):
                raise OSError(errno.EISDIR, "is a directory")
            if before is None:
                self.created.append(path)
            else:
                self.replaced.append({"path": path, "content": before, "mode": "%04o" % _mode(path)})
            _replace(path, content, ROOT, int(mode, 8))

    def edit(self, path, change, owner=None, mode=None, directory_mode=None):
        """Change the text of a file of others, which keeps its owner and mode if none are given.

        With `owner`, as that user: a link in a directory of theirs leads only where they may write themselves.
        """
        user = pwd.getpwnam(owner) if owner else None
        with _as_user(user):
            if directory_mode:
                self.directory(os.path.dirname(path), user[2:4], int(directory_mode, 8), is_parent=True)
            path = os.path.realpath(path)
            before = _content(path)
            after = change(before or "")
            status = None if before is None else os.stat(path)
            uid, gid = ROOT if status is None else (status.st_uid, status.st_gid)
            if user is not None:
                uid, gid = user.pw_uid, gid if status and gid in os.getgroups() else user.pw_gid
            wanted = int(mode, 8) if mode else 0o644 if status is None else stat.S_IMODE(status.st_mode)
            if after != (before or ""):
                if self._begin(path, before or "", after):
                    _replace(path, after, (uid, gid), wanted)
            elif status is not None and mode:
                self._own(path, (uid, gid), wanted)

    def remove(self, path):
        """Remove a file, or a directory with all that is in it."""
        if os.path.lexists(path) and self._begin(path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def remove_if_empty(self, path):
        """Remove a directory that has nothing in it."""
        if not self.is_check and os.path.isdir(path) and not os.listdir(path):
            os.rmdir(path)

    def _begin(self, path, before=None, after=None):
        """Note the change of a path, and mark the host before the first change; return whether to make the change."""
        if after is not None:
            self.diff.append({"before": before, "after": after, "before_header": path, "after_header": path})
        if path not in self.paths:
            self.paths.append(path)
        if self.is_check:
            return False
        if self.mark is not None and not os.path.lexists(self.mark):
            os.mkdir(self.mark, DIRECTORY_MODE)
        return True

    def _own(self, path, owner, mode):
        status = os.stat(path)
        if (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) != (*owner, mode) and self._begin(path):
            try:
                os.chown(path, *owner)
                os.chmod(path, mode)
            except PermissionError:
                what = "%s belongs to uid %d, not to %d" % (path, status.st_uid, owner[0])
                raise OSError(errno.EPERM, what) from None


@contextlib.contextmanager
def _as_user(user):
    """Have the rights of `user` for this block, if this is root."""
    if user is None or user.pw_uid == os.geteuid() or os.geteuid() != 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups(os.getgrouplist(user.pw_name, user.pw_gid))
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def with_block(text, marker, content):
    """Return a text with `content` between its marker lines, at the end if it has none; "" removes both."""
    begin, end = (marker.replace("{mark}", word) for word in ("BEGIN", "END"))
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    kept, at = lines, len(lines)
    edges = [max((number for number, line in enumerate(lines) if line == edge), default=None) for edge in (begin, end)]
    if None not in edges:
        at = min(edges)
        kept = lines[:at] + lines[max(edges) + 1 :]
    elif not content:
        return text
    inner = content[:-1] if content.endswith("\n") else content
    block = [begin, *inner.split("\n"), end] if content else []
    return "".join(line + "\n" for line in kept[:at] + block + kept[at:])


def without_lines(text, regexp):
    """Return a text without the lines in which `regexp` is found."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    return "".join(line for line in lines if not re.search(regexp, line.rstrip("\n")))


def _content(path):
    """Return the text of a regular file; None for anything else."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as source:
        return source.read()


def _mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def _replace(path, content, owner, mode):
    """Replace a file atomically, except where it is a mount, as /etc/hosts is in containers."""
    descriptor, aside = tempfile.mkstemp(prefix=".pylaunch-", dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as sink:
            sink.write(content)
        os.chown(aside, *owner)
        os.chmod(aside, mode)
        os.rename(aside, path)
    except OSError as error:
        os.unlink(aside)
        if error.errno != errno.EBUSY:
            raise
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as sink:
            sink.write(content)


def _applies(file):
    """The host is one of those that are to have the file."""
    if file.get("only_where") and not os.path.lexists(file["only_where"]):
        return False
    capability = file.get("only_without_capability")
    if not capability:
        return True
    with open("/proc/1/status", encoding="utf-8") as source:
        bounding = re.search(r"^CapBnd:\s*([0-9a-f]+)", source.read(), re.MULTILINE)
    return not int(bounding[1], 16) >> CAPABILITIES[capability] & 1


def _steps(writer, asked):
    """Return the changes to make, each with the path that it is about."""
    hostname = os.uname().nodename
    for each in filter(_applies, asked.get("files") or ()):
        yield each["path"], writer.file, (each["path"], each["content"], each["mode"])
    for each in asked.get("blocks") or ():
        if not each["content"] and not os.path.lexists(each["path"]):
            continue
        content = (each["content"] or "").replace("@hostname@", hostname)
        how = (lambda text, each=each, content=content: with_block(text, each["marker"], content),)
        owned = tuple(each.get(key) for key in ("owner", "mode", "directory_mode"))
        yield each["path"], writer.edit, (each["path"], *how, *owned)
    for each in asked.get("absent_lines") or ():
        how = (lambda text, each=each: without_lines(text, each["regexp"]),)
        yield each["path"], writer.edit, (each["path"], *how)
    for path in asked.get("absent_paths") or ():
        yield path, writer.remove, (path,)
    for path in asked.get("absent_if_empty") or ():
        yield path, writer.remove_if_empty, (path,)


def main():
    """Make all changes; report those that could not be made."""
    asked = json.loads(ARGUMENTS)
    os.umask(0o022)
    writer = Writer(asked["_ansible_check_mode"], asked.get("mark"))
    failures = []
    for path, change, arguments in _steps(writer, asked):
        try:
            change(*arguments)
        except (OSError, KeyError) as error:
            failures.append("%s: %s" % (path, getattr(error, "strerror", None) or error))
    answer = {name: getattr(writer, name) for name in ("paths", "diff", "replaced", "created")}
    answer["changed"] = bool(writer.paths) or writer.was_interrupted
    answer["is_marked"] = asked.get("mark") is not None and os.path.lexists(asked["mark"])
    if failures:
        answer.update(failed=True, msg="cannot change " + ", ".join(failures))
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
