"""Ansible module of the role python_env: installs a locked environment from its archive and makes it current."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import tarfile
import zipfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pylaunch_installed_library import MARKER, installed_digest

DOCUMENTATION = r"""
module: pylaunch_environment
short_description: Install a locked Python environment from its archive, without a network
description:
  - Verifies every file of the archive against the manifest, installs aside with uv, renames, and flips C(current).
  - Whatever fails, the environment that was current before stays current and whole.
options:
  state:
    description: C(planned) says whether the archive is needed and whether it would fit; C(current) installs.
    choices: [planned, current]
    default: current
  root:
    description: Directory that holds C(envs/) and the link C(current).
    required: true
    type: path
  manifest:
    description: The manifest that C(pylaunch env lock) wrote.
    required: true
    type: dict
  python:
    description: Interpreter to build on.
    default: /usr/bin/python3
    type: path
  altered:
    description: A file of the environment is not as it was installed, so it is made anew whatever its records say.
    default: false
    type: bool
  keep:
    description: Environments to keep, the current one included.
    default: 3
    type: int
"""

BYTECODE = 1.4
"""Compiled files come on top of what the wheels unpack to; measured 1.2 to 1.35."""


class RefusedError(Exception):
    """Why the environment cannot be installed, in words for the user."""


class Environment:
    """One environment on this host."""

    def __init__(self, root, manifest, python, altered):
        self.root = root
        self.altered = altered
        self.manifest = manifest
        self.python = python
        self.id = manifest["id"]
        self.envs = os.path.join(root, "envs")
        self.path = os.path.join(self.envs, self.id)
        self.current = os.path.join(root, "current")
        self.target = os.path.join("envs", self.id)
        self.incoming = os.path.join(root, "incoming")
        self.archive = os.path.join(self.incoming, self.id + ".tar")
        self.aside = os.path.join(self.envs, "." + self.id)

    def is_installed(self):
        """The environment is there, runs, and holds the distributions it was installed with."""
        if self.altered:
            return False
        try:
            with open(os.path.join(self.path, MARKER), encoding="utf-8") as file:
                is_whole = json.load(file)["digest"] == installed_digest(self.path)
            return is_whole and os.access(os.path.join(self.path, "bin", "python"), os.X_OK)
        except (OSError, ValueError, KeyError):
            return False

    def is_current(self):
        """`current` points at it."""
        return os.path.islink(self.current) and os.readlink(self.current) == self.target

    def refuse_early(self, version):
        """Raise RefusedError for what no installation could overcome."""
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

    def unpack(self):
        """Take the wheels out of the archive, refusing any byte that the manifest does not vouch for."""
        directory = os.path.join(self.incoming, self.id)
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        missing = dict(self.manifest["files"])
        with tarfile.open(self.archive, "r:") as archive:
            for member in archive:
                expected = missing.pop(member.name, None)
                if expected is None or not member.isfile():
                    raise RefusedError("%s: %s is not in the manifest" % (self.archive, member.name))
                destination = os.path.join(directory, os.path.basename(member.name))
                found = copied_digest(archive.extractfile(member), destination)
                if found != expected:
                    raise RefusedError(
                        "%s is not what was locked: sha256 %s, expected %s; make the archive again: "
                        "pylaunch env lock --upgrade" % (member.name, found, expected)
                    )
        if missing:
            raise RefusedError("%s lacks %s" % (self.archive, ", ".join(sorted(missing))))
        os.unlink(self.archive)
        return directory

    def install(self, module, wheels):
        """Build the environment aside and put it in its place."""
        uv = extracted_uv(os.path.join(wheels, os.path.basename(self.manifest["uv"])), wheels)
        shutil.rmtree(self.aside, ignore_errors=True)
        environment = {
            "UV_CACHE_DIR": os.path.join(wheels, "cache"),
            "UV_NO_CONFIG": "1",
            # Those files hold times, and would be all that differs between hosts.
            "UV_NO_INSTALLER_METADATA": "1",
            "UV_NO_PROGRESS": "1",
            "UV_OFFLINE": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "PYTHONPATH": "",
            "PYTHONHOME": "",
        }
        lock = os.path.join(wheels, "requirements.lock")
        interpreter = os.path.join(self.aside, "bin", "python")
        for words in (
            [uv, "venv", "--quiet", "--relocatable", "--python", self.python, self.aside],
            [uv, "pip", "sync", "--quiet", "--python", interpreter, "--no-index", "--find-links", wheels,
             "--require-hashes", "--compile-bytecode", lock],
        ):  # fmt: skip
            code, out, err = module.run_command(words, environ_update=environment)
            if code != 0:
                raise RefusedError("uv %s failed: %s" % (words[1], (err or out).strip()))
        digest = installed_digest(self.aside)
        with open(os.path.join(self.aside, MARKER), "w", encoding="utf-8") as file:
            json.dump({"id": self.id, "digest": digest}, file)
        old = self.aside + ".old"
        shutil.rmtree(old, ignore_errors=True)
        if os.path.lexists(self.path):
            os.rename(self.path, old)
        os.rename(self.aside, self.path)
        shutil.rmtree(old, ignore_errors=True)

    def make_current(self):
        """Flip the link in one step."""
        new = self.current + ".new"
        if os.path.lexists(new):
            os.unlink(new)
        os.symlink(self.target, new)
        os.rename(new, self.current)
        os.utime(os.path.join(self.path, MARKER))

    def prune(self, keep):
        """Remove all but the `keep` environments that were made current last."""

        def last_used(name):
            try:
                return os.stat(os.path.join(self.envs, name, MARKER)).st_mtime
            except OSError:
                return 0.0

        others = [name for name in os.listdir(self.envs) if name != self.id]
        others.sort(key=last_used, reverse=True)
        removed = others[max(keep - 1, 0) :]
        for name in removed:
            shutil.rmtree(os.path.join(self.envs, name), ignore_errors=True)
        return removed


def copied_digest(source, destination):
    """Copy a stream to a file; the sha256 of what was copied."""
    digest = hashlib.sha256()
    with open(destination, "wb") as file:
        for chunk in iter(lambda: source.read(1 << 20), b""):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def extracted_uv(wheel, directory):
    """The uv binary out of its wheel."""
    uv = os.path.join(directory, "uv")
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
        with archive.open(name) as source:
            copied_digest(source, uv)
    os.chmod(uv, 0o700)
    return uv


def size(count):
    """Bytes for people."""
    return "%.1f GiB" % (count / 2.0**30) if count >= 2**30 else "%d MiB" % (count // 2**20)


def python_version(module, python):
    """`3.11` of the interpreter at `python`."""
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    code, out, err = module.run_command([python, "-I", "-c", script])
    if code != 0:
        raise RefusedError("%s: %s" % (python, (err or out).strip() or "does not run"))
    return out.strip()


def planned(module, environment):
    """What an installation would need."""
    installed = environment.is_installed()
    if not installed:
        environment.refuse_early(python_version(module, environment.python))
        if not module.check_mode:
            os.makedirs(environment.incoming, mode=0o700, exist_ok=True)
    return {
        "changed": False,
        "archive": environment.archive,
        "needs_archive": not installed and not module.check_mode,
    }


def current(module, environment):
    """Install where needed, flip the link where needed, and tidy up after ourselves."""
    installed, is_current = environment.is_installed(), environment.is_current()
    before = os.readlink(environment.current) if os.path.islink(environment.current) else ""
    answer = {"changed": not (installed and is_current), "path": environment.path}
    if answer["changed"]:
        answer["diff"] = {"before": before + "\n", "after": environment.target + "\n"}
    if module.check_mode:
        return answer
    if not installed:
        try:
            environment.install(module, environment.unpack())
        finally:
            shutil.rmtree(environment.aside, ignore_errors=True)
            shutil.rmtree(environment.incoming, ignore_errors=True)
    if not is_current:
        environment.make_current()
    answer["removed"] = environment.prune(module.params["keep"])
    return answer


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["planned", "current"], "default": "current"},
            "root": {"type": "path", "required": True},
            "manifest": {"type": "dict", "required": True},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "altered": {"type": "bool", "default": False},
            "keep": {"type": "int", "default": 3},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    environment = Environment(*(module.params[name] for name in ("root", "manifest", "python", "altered")))
    try:
        if module.params["state"] == "planned":
            answer = planned(module, environment)
        elif module.check_mode:
            answer = current(module, environment)
        else:
            os.makedirs(environment.envs, exist_ok=True)
            with open(os.path.join(environment.root, ".lock"), "w", encoding="utf-8") as lock:
                # Hosts of an inventory may be one machine, and share its environments: the first one installs.
                fcntl.flock(lock, fcntl.LOCK_EX)
                answer = current(module, environment)
    except RefusedError as refused:
        module.fail_json(msg=str(refused))
    except OSError as error:
        module.fail_json(msg="%s: %s" % (error.filename or environment.root, error.strerror))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
