"""The collection pylaunch.cluster as Ansible finds it: below `ansible_collections/`.

Code that modules share with the agent has its place in the agent; here it is copied to `plugins/module_utils/`.

`python -m pylaunch.transport.collection DIRECTORY` makes it for `ansible-galaxy collection build`.
"""

import shutil
import sys
from pathlib import Path

import pylaunch

COLLECTION = "pylaunch.cluster"
DIRECTORIES = ("meta", "playbooks", "plugins", "roles")
FILES = ("galaxy.yml", "docs/guides/roles-alone.md", "CHANGELOG.md")
"""An installed package has no CHANGELOG.md."""

SHARED = (
    "agent/probe/altered.py",
    "agent/probe/managed.py",
    "agent/shared/installed.py",
    "agent/shared/sockets/interfaces.py",
)
"""Files of this package that import the standard library alone, for Python >= 3.8."""


def assemble(content: Path, directory: Path) -> Path:
    """Copy the collection from the directory of `roles/` and `plugins/` below `directory`; return its path."""
    made = directory.joinpath("ansible_collections", *COLLECTION.split("."))
    for name in DIRECTORIES:
        shutil.copytree(content / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        if (content / name).exists():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(content / name, made / name)
    for name in SHARED:
        file = Path(pylaunch.__file__).parent / name
        shutil.copyfile(file, made / "plugins" / "module_utils" / file.name)
    return made


if __name__ == "__main__":
    assemble(Path(pylaunch.__file__).parent.parent, Path(sys.argv[1]))
