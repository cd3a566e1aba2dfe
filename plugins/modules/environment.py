#!/usr/bin/python
"""Install a locked Python environment and make it current."""

from __future__ import annotations

DOCUMENTATION = r"""
module: environment
short_description: Install a locked Python environment from a package index or a directory of wheels
version_added: 0.1.0
description:
  - Installs with uv, itself a wheel of the lock, into a temporary directory, renames it, and replaces the link
    C(current). A wheel is used only if it has the hash in the lock.
  - If an environment on the host shares wheels with the new one, the new one is built from it with hard links, and only
    the other wheels are fetched.
  - After any failure, the previous environment stays current and complete.
options:
  state:
    description: C(current) installs; C(absent) removes the environment, but none that another link names or a run uses.
    choices: [current, absent]
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
    description: The manifest that C(pylaunch env lock) wrote; required with C(current).
    type: dict
  lock:
    description: Content of the requirements.lock that C(pylaunch env lock) wrote; required with C(current).
    type: str
  index:
    description: Where the host gets wheels, as URLs of package indexes and absolute paths of directories on the host.
    type: list
    elements: str
    default: [https://pypi.org/simple]
  python:
    description: Interpreter of the environment.
    default: /usr/bin/python3
    type: path
  altered:
    description: Rebuild the environment, because a file of it was edited, even if its records are complete.
    default: false
    type: bool
  keep:
    description: Number of environments to keep, including the current one, beside those of other names.
    default: 3
    type: int
attributes:
  check_mode:
    description: Returns whether an installation or removal is needed, and fails if the interpreter does not fit.
    support: full
author:
  - The pylaunch authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Install the environment that was locked
  pylaunch.cluster.environment:
    root: /opt/pylaunch
    manifest: "{{ lookup('ansible.builtin.file', 'environment/manifest.json') | from_json }}"
    lock: "{{ lookup('ansible.builtin.file', 'environment/requirements.lock') }}"
    index: [/data/wheels]
"""

RETURN = r"""
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

import errno
import fcntl
import hashlib
import html
import json
import os
import platform
import re
import shutil
import zipfile
from http.client import HTTPException
from urllib.error import URLError
from urllib.parse import unquote, urljoin, urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import ConnectionError, open_url
from ansible_collections.pylaunch.cluster.plugins.module_utils.environment_store import (
    RefusedError,
    link_of,
    prune,
    remove,
)
from ansible_collections.pylaunch.cluster.plugins.module_utils.installed import (
    MARKER,
    altered_files,
    installed_digest,
)

LOCKED = re.compile(r"^(\S+)==\S+ --hash=sha256:([0-9a-f]{64})$", re.MULTILINE)
"""Package and hash in a line of the lock."""

CREDENTIALS = re.compile(r"//[^/]*@")
"""User and password in a URL."""

ANSWER_S = 60


class Environment:
    """One environment on this host."""

    def __init__(self, given):
        """`given` are the parameters of the module."""
        self.root = given["root"]
        self.altered = given["altered"]
        self.manifest = given["manifest"]
        self.lock = given["lock"]
        self.wheels = dict(LOCKED.findall(self.lock))
        self.python = given["python"]
        self.index = [place.strip() for place in given["index"]]  # Ansible splits "A, B" at the comma alone.
        self.id = self.manifest["id"]
        self.envs = os.path.join(self.root, "envs")
        self.path = os.path.join(self.envs, self.id)
        self.current = link_of(self.root, given["name"])
        self.target = os.path.relpath(self.path, os.path.dirname(self.current))
        self.scratch = os.path.join(self.envs, ".new")
        self.aside = os.path.join(self.scratch, "environment")
        self.interpreter = os.path.join(self.aside, "bin", "python")

    def marker(self):
        """Return the marker of an environment that is built from this lock, without its digest."""
        return {"id": self.id, "wheels": self.wheels, "python": self.python, "version": self.manifest["python"]}

    def is_installed(self):
        """Return True if the environment exists, runs, and contains the distributions that were installed."""
        runs = os.access(os.path.join(self.path, "bin", "python"), os.X_OK)
        return runs and not self.altered and whole_marker(self.path) is not None

    def is_current(self):
        """Return True if the link points to the environment."""
        return os.path.islink(self.current) and os.readlink(self.current) == self.target

    def refuse_early(self, version):
        """Raise RefusedError for problems that every installation would hit."""
        if hashlib.sha256(self.lock.encode()).hexdigest()[: len(self.id)] != self.id:
            raise RefusedError("requirements.lock was edited after it was made: pylaunch env lock makes it again")
        wanted = (self.manifest["python"], self.manifest["machine"])
        if (version, platform.machine()) != wanted:
            raise RefusedError(
                "%s is Python %s on %s, but the environment was locked for Python %s on %s: "
                "lock it for this host (pylaunch env lock --python %s) or set python_env_python"
                % (self.python, version, platform.machine(), wanted[0], wanted[1], version)
            )
        if os.path.lexists(self.current) and not os.path.islink(self.current):
            raise RefusedError("%s is not a link: move it away, pylaunch will not replace it" % self.current)

    def base(self):
        """Return the complete environment that shares most wheels with this one and its marker, or None."""
        found = []
        for name in sorted(os.listdir(self.envs)):
            path = os.path.join(self.envs, name)
            marker = whole_marker(path)
            if marker is None or path == self.path:
                continue
            if (marker["python"], marker["version"]) == (self.python, self.manifest["python"]):
                found.append((len(marker["wheels"].items() & self.wheels.items()), path, marker))
        shared, path, marker = max(found, key=lambda each: each[0], default=(0, "", {}))
        return (path, marker) if shared else None

    def install(self, module):
        """Build the environment in a temporary directory, from another one where that gives the same, and rename it."""
        os.makedirs(self.envs, exist_ok=True)
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.mkdir(self.scratch, 0o755)
        base = self.base()
        self.build(module, base)
        # The other one may have been edited, and of a file that two distributions own, uv removes it with the first.
        if base is not None and altered_files(self.aside):
            shutil.rmtree(self.aside)
            self.build(module, None)
        marker = dict(self.marker(), digest=installed_digest(self.aside))
        with open(os.path.join(self.aside, MARKER), "w", encoding="utf-8") as file:
            json.dump(marker, file)
        if os.path.lexists(self.path):
            os.rename(self.path, os.path.join(self.scratch, "old"))
        os.rename(self.aside, self.path)

    def build(self, module, base):
        """Make the environment beside its place, from `base` unless it is None."""
        uv, changed = self.uv(), []
        lock = os.path.join(self.scratch, "requirements.lock")
        with open(lock, "w", encoding="utf-8") as file:
            file.write(self.lock)
        if base is None:
            self.run(module, [uv, "venv", "--quiet", "--relocatable", "--python", self.python, self.aside])
        else:
            path, marker = base
            linked_copy(path, self.aside)
            # uv compares versions of what is installed, and no hashes.
            changed = sorted(name for name in self.wheels if marker["wheels"].get(name) != self.wheels[name])
        words = ["--quiet", "--python", self.interpreter, "--require-hashes", "--compile-bytecode"]
        self.run(module, [uv, "pip", "sync", *words, *("--reinstall-package=" + name for name in changed), lock])

    def run(self, module, words):
        """Run uv. Raises RefusedError with its output if it fails."""
        urls = [place for place in self.index if not place.startswith("/")]
        environment = {
            "UV_CACHE_DIR": os.path.join(self.scratch, "cache"),
            "UV_FIND_LINKS": ",".join(place for place in self.index if place.startswith("/")),
            # A wheel counts by its hash, so the first index that knows a package need not have it.
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_NATIVE_TLS": "1",
            "UV_SYSTEM_CERTS": "1",  # The same in newer versions.
            "UV_NO_BUILD": "1",
            "UV_NO_CONFIG": "1",
            # These files contain times, and would be the only difference between hosts.
            "UV_NO_INSTALLER_METADATA": "1",
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "PYTHONPATH": "",
            "PYTHONHOME": "",
        }
        # Variables, because a URL may contain a password and every user can read command lines.
        indexes = {"UV_DEFAULT_INDEX": urls[0], "UV_INDEX": " ".join(urls[1:])} if urls else {"UV_OFFLINE": "1"}
        environment.update(indexes)
        code, out, err = module.run_command(words, environ_update=environment)
        if code != 0:
            raise RefusedError("uv %s failed: %s" % (words[1], (err or out).strip()))

    def uv(self):
        """Return uv, of the wheel in the lock; fetch it if this host has another one or none."""
        digest = self.wheels["uv"]
        tools = os.path.join(self.root, "tools")
        program = os.path.join(tools, digest[:16], "uv")
        if not os.access(program, os.X_OK):
            wheel = os.path.join(self.scratch, "uv.whl")
            fetch(self.index, self.manifest["uv"], digest, wheel)
            shutil.rmtree(tools, ignore_errors=True)
            os.makedirs(os.path.dirname(program), mode=0o700)
            extract_uv(wheel, program)
        return program

    def make_current(self):
        """Replace the link in one step."""
        os.makedirs(os.path.dirname(self.current), exist_ok=True)
        new = self.current + ".new"
        if os.path.lexists(new):
            os.unlink(new)
        os.symlink(self.target, new)
        os.rename(new, self.current)
        os.utime(os.path.join(self.path, MARKER))


def whole_marker(path):
    """Return the marker of the environment at `path`; None unless it contains what was installed."""
    try:
        with open(os.path.join(path, MARKER), encoding="utf-8") as file:
            marker = json.load(file)
        return marker if marker["digest"] == installed_digest(path) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def linked_copy(source, destination):
    """Copy the tree `source`, without its marker, to `destination` with hard links for files.

    uv unlinks a file before it replaces it, and Python renames bytecode files, so `source` does not change.
    """
    ignored = shutil.ignore_patterns(MARKER)
    shutil.copytree(source, destination, symlinks=True, ignore=ignored, copy_function=os.link)


def fetch(index, file, digest, destination):
    """Write the wheel `file` to `destination`. Raises RefusedError if no place has it with this hash."""
    tried = []
    for place in index:
        shown = CREDENTIALS.sub("//", place)
        try:
            with opened(place, file) as source:
                found = copied_digest(source, destination)
            if found == digest:
                return
            tried.append("%s has another file, sha256 %s" % (shown, found))
        except (OSError, ValueError, HTTPException, ConnectionError) as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise  # Another place would not help.
            why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            tried.append("%s: %s" % (shown, why))
    raise RefusedError(
        "cannot get %s (%s): set python_env_index to a package index or a directory of wheels that the host reaches"
        % (file, "; ".join(tried))
    )


def opened(place, file):
    """Open a wheel in a directory or an index. Raises the errors of `open` and `open_url`."""
    if place.startswith("/"):
        # Without O_NONBLOCK, a FIFO of that name would wait for a writer; like this it is empty, and its hash is wrong.
        return os.fdopen(os.open(os.path.join(place, file), os.O_RDONLY | os.O_NONBLOCK), "rb")
    with open_url("%s/%s/" % (place.rstrip("/"), file.split("-", 1)[0]), timeout=ANSWER_S) as page:
        here, text = page.geturl(), page.read().decode()
    for link in re.findall(r'href="([^"]+)"', text):
        url = urljoin(here, html.unescape(link))
        if unquote(os.path.basename(urlsplit(url).path)) == file:
            return open_url(with_credentials(url, place), timeout=ANSWER_S)
    raise URLError("it has no such file")


def with_credentials(url, place):
    """Return `url` with the user and password of the index `place`, if it is on the same server."""
    (scheme, netloc), there = urlsplit(place)[:2], urlsplit(url)
    if (there.scheme, there.netloc) != (scheme, netloc.rpartition("@")[2]):
        return url
    return there._replace(netloc=netloc).geturl()


def copied_digest(source, destination):
    """Copy a stream to a file and return its sha256."""
    digest = hashlib.sha256()
    with open(destination, "wb") as file:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def extract_uv(wheel, path):
    """Write the uv binary of `wheel` to `path`."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
        with archive.open(name) as source:
            copied_digest(source, path + ".new")
    os.chmod(path + ".new", 0o700)
    os.rename(path + ".new", path)


def python_version(module, python):
    """Return the version of the interpreter at `python`, such as `3.11`."""
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    code, out, err = module.run_command([python, "-I", "-c", script])
    if code != 0:
        raise RefusedError("%s: %s" % (python, (err or out).strip() or "does not run"))
    return out.strip()


def current(module, environment):
    """Install and replace the link if needed, and remove temporary files."""
    installed, is_current = environment.is_installed(), environment.is_current()
    before = os.readlink(environment.current) if os.path.islink(environment.current) else ""
    answer = {"changed": not (installed and is_current), "path": environment.path}
    if answer["changed"]:
        answer["diff"] = {"before": before + "\n", "after": environment.target + "\n"}
    if not installed:
        environment.refuse_early(python_version(module, environment.python))
    if module.check_mode:
        return answer
    if not installed:
        try:
            environment.install(module)
        finally:
            shutil.rmtree(environment.scratch, ignore_errors=True)
    if not is_current:
        environment.make_current()
    answer["removed"] = prune(environment.root, module.params["keep"])
    return answer


def changed(module):
    """Install or remove the environment."""
    given = module.params
    if given["state"] == "absent":
        return {"changed": remove(given["root"], given["name"], dry_run=module.check_mode)}
    return current(module, Environment(given))


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["current", "absent"], "default": "current"},
            "root": {"type": "path", "required": True},
            "name": {"type": "str", "default": ""},
            "manifest": {"type": "dict"},
            "lock": {"type": "str"},
            "index": {"type": "list", "elements": "str", "default": ["https://pypi.org/simple"]},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "altered": {"type": "bool", "default": False},
            "keep": {"type": "int", "default": 3},
        },
        required_if=[("state", "current", ["manifest", "lock"])],
        supports_check_mode=True,
    )
    os.umask(0o022)
    root = module.params["root"]
    try:
        if module.check_mode or (module.params["state"] == "absent" and not os.path.isdir(root)):
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
        module.fail_json(msg="%s: %s" % (error.filename or root, error.strerror or error))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
