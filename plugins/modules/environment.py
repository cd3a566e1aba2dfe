#!/usr/bin/python
"""Install a locked Python environment from its archive and make it current."""

from __future__ import annotations

DOCUMENTATION = r"""
module: environment
short_description: Install a locked Python environment from its archive, without network access
version_added: 0.1.0
description:
  - Verifies every file of the archive against the manifest, installs into a temporary directory with uv, renames it,
    and replaces the link C(current).
  - If an unchanged environment shares wheels with the new one, the new one is built from it with hard links, and only
    the other wheels are needed.
  - After any failure, the previous environment stays current and complete.
options:
  state:
    description: C(planned) returns the members of the archive that are needed, and fails if they do not fit on the
      disk; C(current) installs; C(absent) removes the environment, but none that another link names or a run uses.
    choices: [planned, current, absent]
    default: current
    type: str
  root:
    description: Directory that holds C(envs/) and the link C(current).
    required: true
    type: path
  name:
    description: Name of the environment; its link is then C(named/NAME) instead of C(current).
    default: ""
    type: str
  manifest:
    description: The manifest that C(pylaunch env lock) wrote; for all states but C(absent).
    type: dict
  python:
    description: Interpreter of the environment.
    default: /usr/bin/python3
    type: path
  altered:
    description: Rebuild the environment, because a file of it was edited, even if its records are complete.
    default: false
    type: bool
  received:
    description: Archive that hosts passed on, as C(path), with C({user}) for the id of the user who logs in, and its
      C(sha256); C(planned) takes it from there if it has this hash, and empty is none.
    default: {}
    type: dict
  base:
    description: Environment to build from, as returned by C(planned); empty for none.
    default: ""
    type: str
  keep:
    description: Number of environments to keep, including the current one, beside those of other names.
    default: 3
    type: int
attributes:
  check_mode:
    description: Returns whether an installation or removal is needed.
    support: full
author:
  - The pylaunch authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Install the environment whose archive was copied
  pylaunch.cluster.environment:
    root: /opt/pylaunch
    manifest: "{{ lookup('ansible.builtin.file', 'environment/manifest.json') | from_json }}"
"""

RETURN = r"""
members:
  description: Members of the archive that an installation needs.
  type: list
  elements: str
  returned: with state planned
archive:
  description: Where the archive with these members has to be.
  type: str
  returned: with state planned
needs_archive:
  description: The archive is not there yet.
  type: bool
  returned: with state planned
base:
  description: Environment to build from.
  type: str
  returned: with state planned
path:
  description: The environment.
  type: str
  returned: with state current
removed:
  description: Environments that were removed because newer ones replaced them.
  type: list
  elements: str
  returned: with state current
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import stat
import sys
import tarfile
import zipfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pylaunch.cluster.plugins.module_utils.altered import altered_files
from ansible_collections.pylaunch.cluster.plugins.module_utils.environment_base import Base, distribution, linked_copy
from ansible_collections.pylaunch.cluster.plugins.module_utils.environment_store import (
    RefusedError,
    link_of,
    prune,
    remove,
    remove_incoming,
)
from ansible_collections.pylaunch.cluster.plugins.module_utils.installed import MARKER, installed_digest

BYTECODE = 1.4
"""Factor for compiled files in addition to the unpacked wheels; measured 1.2 to 1.35."""


class Environment:
    """One environment on this host."""

    def __init__(self, root, name, manifest, python, altered):
        self.root = root
        self.altered = altered
        self.manifest = manifest
        self.python = python
        self.id = manifest["id"]
        self.envs = os.path.join(root, "envs")
        self.path = os.path.join(self.envs, self.id)
        self.current = link_of(root, name)
        self.target = os.path.relpath(self.path, os.path.dirname(self.current))
        self.incoming = os.path.join(root, "incoming")
        self.archive = os.path.join(self.incoming, self.id + ".tar")
        self.aside = os.path.join(self.envs, "." + self.id)
        self.uv = os.path.join(root, "tools", "uv-" + manifest["files"][manifest["uv"]][:16])

    def wheels(self):
        """Return the wheels to install: member of the archive -> sha256."""
        files = self.manifest["files"]
        return {name: files[name] for name in files if name.startswith("wheels/") and name != self.manifest["uv"]}

    def marker(self):
        """Return the marker of an environment that is built from this manifest."""
        return {"id": self.id, "wheels": self.wheels(), "python": self.python, "version": self.manifest["python"]}

    def best_base(self):
        """Return the complete environment that shares most wheels with this one, or None."""
        found = []
        for name in os.listdir(self.envs) if os.path.isdir(self.envs) else []:
            base = Base.read(os.path.join(self.envs, name), self.marker())
            if base is not None and name != self.id and base.kept:
                found.append(base)
        found.sort(key=lambda base: (-len(base.kept), base.path))
        return next((base for base in found if base.is_whole() and not altered_files(base.path)), None)

    def needed(self, base):
        """Return the members of the archive that an installation from `base` needs."""
        kept = base.kept if base is not None else ()
        has_uv = os.access(self.uv, os.X_OK)
        return sorted(
            name for name in self.manifest["files"] if name not in kept and not (name == self.manifest["uv"] and has_uv)
        )

    def is_installed(self):
        """Return True if the environment exists, runs, and contains the distributions that were installed."""
        if self.altered:
            return False
        try:
            with open(os.path.join(self.path, MARKER), encoding="utf-8") as file:
                is_whole = json.load(file)["digest"] == installed_digest(self.path)
            return is_whole and os.access(os.path.join(self.path, "bin", "python"), os.X_OK)
        except (OSError, ValueError, KeyError):
            return False

    def is_current(self):
        """Return True if the link points to the environment."""
        return os.path.islink(self.current) and os.readlink(self.current) == self.target

    def refuse_early(self, version):
        """Raise RefusedError for problems that every installation would hit."""
        wanted = (self.manifest["python"], self.manifest["machine"])
        if (version, platform.machine()) != wanted:
            raise RefusedError(
                "%s is Python %s on %s, but the environment was locked for Python %s on %s: "
                "lock it for this host (pylaunch env lock --python %s) or set python_env_python"
                % (self.python, version, platform.machine(), wanted[0], wanted[1], version)
            )
        if os.path.lexists(self.current) and not os.path.islink(self.current):
            raise RefusedError("%s is not a link: move it away, pylaunch will not replace it" % self.current)
        place = self.root
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        needed = self.manifest["archive_bytes"] + max(
            self.manifest["archive_bytes"], int(self.manifest["unpacked_bytes"] * BYTECODE)
        )
        disk = os.statvfs(place)
        free = disk.f_bavail * disk.f_frsize
        if free < needed:
            raise RefusedError("%s: %s are free, the environment needs %s" % (place, size(free), size(needed)))

    def take(self, received, needed):
        """Move the archive that other hosts passed on to its place; return False if it is missing or differs, or lacks
        a member that is `needed`."""
        user, copy, is_whole = int(os.environ.get("SUDO_UID", os.getuid())), self.archive + ".received", False
        path = received["path"].replace("{user}", str(user))
        try:
            # The user who logs in may write there, so the content counts that is copied, not the file.
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                found = os.fstat(file.fileno())
                size = received["size"]
                has_needed = set(needed) <= set(received.get("members", needed))
                if has_needed and stat.S_ISREG(found.st_mode) and (found.st_uid, found.st_size) == (user, size):
                    is_whole = copied_digest(file, copy, size) == received["sha256"]
            os.unlink(path)
            if is_whole:
                os.rename(copy, self.archive)
        except OSError:
            is_whole = False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(copy)
        return is_whole

    def unpack(self, needed):
        """Extract the `needed` members of the archive. Raises RefusedError if one differs from the manifest."""
        directory = os.path.join(self.incoming, self.id)
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        missing = {name: self.manifest["files"][name] for name in needed}
        with tarfile.open(self.archive, "r:") as archive:
            for member in archive:
                if member.name not in missing and member.name in self.manifest["files"]:
                    continue  # Hosts pass on more than each of them needs.
                expected = missing.pop(member.name, None)
                if expected is None or not member.isfile():
                    raise RefusedError("%s: %s is not in the manifest" % (self.archive, member.name))
                destination = os.path.join(directory, os.path.basename(member.name))
                found = copied_digest(archive.extractfile(member), destination)
                if found != expected:
                    raise RefusedError(
                        "%s differs from the lock: sha256 %s, expected %s; build the archive again: "
                        "pylaunch env lock --upgrade" % (member.name, found, expected)
                    )
        if missing:
            raise RefusedError("%s lacks %s" % (self.archive, ", ".join(sorted(missing))))
        os.unlink(self.archive)
        return directory

    def install(self, module, wheels, base):
        """Build the environment in a temporary directory, from `base` unless it is None, and rename it."""
        os.makedirs(self.envs, exist_ok=True)
        self.keep_uv(wheels)
        shutil.rmtree(self.aside, ignore_errors=True)
        interpreter = os.path.join(self.aside, "bin", "python")
        lock = os.path.join(wheels, "requirements.lock")
        words = ["--quiet", "--python", interpreter]
        from_wheels = ["--no-index", "--find-links", wheels, "--require-hashes", "--compile-bytecode"]
        if base is None:
            self.run_uv(module, wheels, ["venv", "--quiet", "--relocatable", "--python", self.python, self.aside])
            self.run_uv(module, wheels, ["pip", "sync", *words, *from_wheels, lock])
        else:
            added = {name: digest for name, digest in self.wheels().items() if name not in base.kept}
            linked_copy(base.path, self.aside)
            if base.gone:
                gone = sorted(distribution(name) for name in base.gone)
                self.run_uv(module, wheels, ["pip", "uninstall", *words, *gone])
            if added:
                part = only_locked(lock, set(added.values()))
                self.run_uv(module, wheels, ["pip", "install", *words, *from_wheels, "--no-deps", "-r", part])
        marker = dict(self.marker(), digest=installed_digest(self.aside))
        with open(os.path.join(self.aside, MARKER), "w", encoding="utf-8") as file:
            json.dump(marker, file)
        old = self.aside + ".old"
        shutil.rmtree(old, ignore_errors=True)
        if os.path.lexists(self.path):
            os.rename(self.path, old)
        os.rename(self.aside, self.path)
        shutil.rmtree(old, ignore_errors=True)

    def run_uv(self, module, wheels, words):
        """Run uv without network access. Raises RefusedError with its output if it fails."""
        environment = {
            "UV_CACHE_DIR": os.path.join(wheels, "cache"),
            "UV_NO_CONFIG": "1",
            # These files contain times, and would be the only difference between hosts.
            "UV_NO_INSTALLER_METADATA": "1",
            "UV_NO_PROGRESS": "1",
            "UV_OFFLINE": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "PYTHONPATH": "",
            "PYTHONHOME": "",
        }
        code, out, err = module.run_command([self.uv, *words], environ_update=environment)
        if code != 0:
            raise RefusedError("uv %s failed: %s" % (" ".join(words[:2]), (err or out).strip()))

    def keep_uv(self, wheels):
        """Keep uv for the next installation, and remove earlier versions."""
        wheel = os.path.join(wheels, os.path.basename(self.manifest["uv"]))
        if not os.path.exists(wheel):
            return
        directory = os.path.dirname(self.uv)
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory, mode=0o700)
        extract_uv(wheel, self.uv)

    def make_current(self):
        """Replace the link in one step."""
        os.makedirs(os.path.dirname(self.current), exist_ok=True)
        new = self.current + ".new"
        if os.path.lexists(new):
            os.unlink(new)
        os.symlink(self.target, new)
        os.rename(new, self.current)
        os.utime(os.path.join(self.path, MARKER))


def copied_digest(source, destination, most=sys.maxsize):
    """Copy at most `most` bytes of a stream to a file and return the sha256 of them."""
    digest = hashlib.sha256()
    with open(destination, "wb") as file:
        while chunk := source.read(min(1 << 20, most)):
            digest.update(chunk)
            file.write(chunk)
            most -= len(chunk)
    return digest.hexdigest()


def extract_uv(wheel, path):
    """Write the uv binary of `wheel` to `path`."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
        with archive.open(name) as source:
            copied_digest(source, path + ".new")
    os.chmod(path + ".new", 0o700)
    os.rename(path + ".new", path)


def only_locked(lock, digests):
    """Write the lines of `lock` for these wheels to a file beside it, and return its path."""
    part = lock + ".part"
    with open(lock, encoding="utf-8") as whole, open(part, "w", encoding="utf-8") as file:
        file.writelines(line for line in whole if line.strip().rpartition("sha256:")[2] in digests)
    return part


def size(count):
    """Format a number of bytes."""
    return "%.1f GiB" % (count / 2.0**30) if count >= 2**30 else "%d MiB" % (count // 2**20)


def python_version(module, python):
    """Return the version of the interpreter at `python`, such as `3.11`."""
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    code, out, err = module.run_command([python, "-I", "-c", script])
    if code != 0:
        raise RefusedError("%s: %s" % (python, (err or out).strip() or "does not run"))
    return out.strip()


def planned(module, environment):
    """Return what an installation needs."""
    answer = {"changed": False, "archive": environment.archive, "base": "", "members": []}
    if not environment.is_installed():
        environment.refuse_early(python_version(module, environment.python))
        base = environment.best_base()
        answer.update(base=os.path.basename(base.path) if base is not None else "", members=environment.needed(base))
        if not module.check_mode:
            os.makedirs(environment.incoming, mode=0o700, exist_ok=True)
    needs_archive, received = bool(answer["members"]) and not module.check_mode, module.params["received"]
    answer["needs_archive"] = needs_archive and not (received and environment.take(received, answer["members"]))
    return answer


def current(module, environment):
    """Install and replace the link if needed, and remove temporary files."""
    installed, is_current = environment.is_installed(), environment.is_current()
    before = os.readlink(environment.current) if os.path.islink(environment.current) else ""
    answer = {"changed": not (installed and is_current), "path": environment.path}
    if answer["changed"]:
        answer["diff"] = {"before": before + "\n", "after": environment.target + "\n"}
    if module.check_mode:
        return answer
    if not installed:
        name = module.params["base"]
        base = Base.read(os.path.join(environment.envs, name), environment.marker()) if name else None
        if name and base is None:
            raise RefusedError("the environment %s, from which to build, no longer exists: provision again" % name)
        try:
            environment.install(module, environment.unpack(environment.needed(base)), base)
        finally:
            shutil.rmtree(environment.aside, ignore_errors=True)
            remove_incoming(environment.incoming, environment.id)
    if not is_current:
        environment.make_current()
    answer["removed"] = prune(environment.root, module.params["keep"])
    return answer


def wanted(module):
    """Return the environment of the module's arguments."""
    return Environment(*(module.params[name] for name in ("root", "name", "manifest", "python", "altered")))


def changed(module):
    """Install or remove the environment."""
    if module.params["state"] == "current":
        return current(module, wanted(module))
    return {"changed": remove(module.params["root"], module.params["name"], dry_run=module.check_mode)}


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["planned", "current", "absent"], "default": "current"},
            "root": {"type": "path", "required": True},
            "name": {"type": "str", "default": ""},
            "received": {"type": "dict", "default": {}},
            "manifest": {"type": "dict"},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "altered": {"type": "bool", "default": False},
            "base": {"type": "str", "default": ""},
            "keep": {"type": "int", "default": 3},
        },
        required_if=[("state", "planned", ["manifest"]), ("state", "current", ["manifest"])],
        supports_check_mode=True,
    )
    os.umask(0o022)
    state, root = module.params["state"], module.params["root"]
    try:
        if state == "planned":
            answer = planned(module, wanted(module))
        elif module.check_mode or (state == "absent" and not os.path.isdir(root)):
            answer = changed(module)
        else:
            os.makedirs(root, exist_ok=True)
            with open(os.path.join(root, ".lock"), "w", encoding="utf-8") as lock:
                # Several hosts of an inventory may be one machine and share its environments: the first one installs.
                fcntl.flock(lock, fcntl.LOCK_EX)
                answer = changed(module)
    except RefusedError as refused:
        module.fail_json(msg=str(refused))
    except OSError as error:
        module.fail_json(msg="%s: %s" % (error.filename or root, error.strerror))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
