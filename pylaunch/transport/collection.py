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
FILES = {
    "galaxy.yml": Path("galaxy.yml"),
    "README.md": Path("docs", "guides", "roles-alone.md"),
    "CHANGELOG.md": Path("CHANGELOG.md"),
}
"""Name in the collection → file; an installed package has no CHANGELOG.md."""

SHARED = (
    "agent/probe/managed.py",
    "agent/shared/installed.py",
    "agent/shared/sockets/interfaces.py",
)
"""Files of this package that import the standard library alone, for Python >= 3.8."""


def shared_files() -> tuple[Path, ...]:
    """Return the files of SHARED."""
    package = Path(pylaunch.__file__).parent
    return tuple(package / name for name in SHARED)


def assemble(content: Path, directory: Path) -> Path:
    """Copy the collection from the directory of `roles/` and `plugins/` below `directory`; return its path."""
    made = directory.joinpath("ansible_collections", *COLLECTION.split("."))
    for name in DIRECTORIES:
        shutil.copytree(content / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, file in FILES.items():
        if (content / file).exists():
            shutil.copyfile(content / file, made / name)
    for shared in shared_files():
        shutil.copyfile(shared, made / "plugins" / "module_utils" / shared.name)
    return made


if __name__ == "__main__":
    assemble(Path(pylaunch.__file__).parent.parent, Path(sys.argv[1]))
