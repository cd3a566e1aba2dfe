"""An existing environment from which another one is built; common files are linked, not copied."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil

from ansible_collections.pylaunch.cluster.plugins.module_utils.installed import MARKER, installed_digest


class Base:
    """An environment, and the wheels that it shares with another one."""

    def __init__(self, path, marker, kept, gone):
        self.path = path
        self.marker = marker
        self.kept = kept
        """Members of the archive that need not be sent."""

        self.gone = gone
        """Members that are missing or different in the other environment."""

    @classmethod
    def read(cls, path, wanted):
        """Return the environment at `path`, or None unless it was built on the same interpreter as `wanted`."""
        try:
            with open(os.path.join(path, MARKER), encoding="utf-8") as file:
                marker = json.load(file)
            here = marker["wheels"]
            if (marker["python"], marker["version"]) != (wanted["python"], wanted["version"]):
                return None
            kept = {name for name in here if wanted["wheels"].get(name) == here[name]}
            gone = set(here) - kept
            # uv removes a file that two distributions own with the first of them, so the other is installed again.
            owners = owned_files(path)
            while True:
                lost = set().union(*(owners.get(key(name), ()) for name in gone))
                torn = {name for name in kept if lost & set(owners.get(key(name), ()))}
                if not torn:
                    return cls(path, marker, kept, gone)
                kept, gone = kept - torn, gone | torn
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def is_whole(self):
        """Return True if it contains the distributions that were installed."""
        try:
            return bool(self.marker["digest"] == installed_digest(self.path))
        except (OSError, KeyError):
            return False


def owned_files(path):
    """Map (name, version) of every distribution at `path` to the files in its RECORD."""
    owned = {}
    library = os.path.join(path, "lib")
    for python in os.listdir(library):
        packages = os.path.join(library, python, "site-packages")
        for name in os.listdir(packages):
            record = os.path.join(packages, name, "RECORD")
            if name.endswith(".dist-info") and os.path.exists(record):
                with open(record, encoding="utf-8", newline="") as lines:
                    owned[key(name)] = {row[0] for row in csv.reader(lines) if row}
    return owned


def distribution(name):
    """Return the distribution of the wheel `name`."""
    return os.path.basename(name).split("-", 1)[0]


def key(name):
    """Return the normalized name and version of a wheel or a `.dist-info` directory."""
    parts = os.path.basename(name).split("-")
    version = parts[1][: -len(".dist-info")] if parts[1].endswith(".dist-info") else parts[1]
    return re.sub(r"[-_.]+", "-", parts[0]).lower(), version


def linked_copy(source, destination):
    """Copy the tree `source`, without its marker, to `destination` with hard links for files.

    uv unlinks a file before it replaces it, and Python renames bytecode files, so `source` does not change.
    """
    for directory, names, files in os.walk(source):
        made = os.path.join(destination, os.path.relpath(directory, source))
        os.makedirs(made, exist_ok=True)
        shutil.copystat(directory, made)
        for name in list(names):
            if os.path.islink(os.path.join(directory, name)):
                os.symlink(os.readlink(os.path.join(directory, name)), os.path.join(made, name))
        for name in files:
            if directory == source and name == MARKER:
                continue
            os.link(os.path.join(directory, name), os.path.join(made, name), follow_symlinks=False)
