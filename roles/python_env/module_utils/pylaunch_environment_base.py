"""An environment that is there already, for another one to be built on: what they share is linked, not copied."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil

from ansible.module_utils.pylaunch_installed_library import MARKER, installed_digest


class Base:
    """An environment, and which of its wheels another one has, too."""

    def __init__(self, path, marker, kept, gone):
        self.path = path
        self.marker = marker
        self.kept = kept
        """Members of the archive that need not travel."""

        self.gone = gone
        """Members that the other environment has not, or not like this."""

    @classmethod
    def read(cls, path, wanted):
        """The environment at `path`, None where none is that was built on the same interpreter as `wanted`."""
        try:
            with open(os.path.join(path, MARKER), encoding="utf-8") as file:
                marker = json.load(file)
            here = marker["wheels"]
            if (marker["python"], marker["version"]) != (wanted["python"], wanted["version"]):
                return None
            kept = {name for name in here if wanted["wheels"].get(name) == here[name]}
            gone = set(here) - kept
            # A file that two distributions own goes with the first that is removed, so the other is installed again.
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
        """It holds the distributions that it was installed with."""
        try:
            return bool(self.marker["digest"] == installed_digest(self.path))
        except (OSError, KeyError):
            return False


def owned_files(path):
    """(name, version) of every distribution at `path` -> its files, as its RECORD names them."""
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
    """The distribution whose wheel is called `name`."""
    return os.path.basename(name).split("-", 1)[0]


def key(name):
    """What a wheel and the `.dist-info` that it was installed as have in common: normalized name and version."""
    parts = os.path.basename(name).split("-")
    version = parts[1][: -len(".dist-info")] if parts[1].endswith(".dist-info") else parts[1]
    return re.sub(r"[-_.]+", "-", parts[0]).lower(), version


def linked_copy(source, destination):
    """Make `destination` the same tree as `source`, less its marker, with hard links for files.

    uv unlinks a file before it replaces it, and Python renames bytecode into place, so `source` stays as it is.
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
