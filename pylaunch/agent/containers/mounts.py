"""Mounts of a container: an image as the root directory, with directories of the node, as arguments of bubblewrap.

The image is read-only, and a mount needs an existing place. Where the image lacks one, its nearest directory becomes a
directory in memory that contains each entry of the image again.
"""

from __future__ import annotations

import os
import stat

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import NodeRoot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Sequence

OF_THE_NODE = ("/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp")
"""Directories that ranks see as they are on the node: devices, shared memory, what ranks of one node exchange."""

FILES_OF_THE_NODE = ("/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/group")
"""Names of hosts and of the user. The node's users are those of a rank, so its file names are right."""

MOST_ENTRIES = 10_000
"""Entries of one directory of an image that are mounted again."""


class MountError(Exception):
    """A mount has no source, or the image has no place for it."""


@dataclass(frozen=True)
class ContainerMount:
    """Mount, for which the image has to contain a directory or a file."""

    source: str
    """Path on the node; "" for an empty directory in memory, where the image has nothing."""

    target: str
    is_directory: bool = True
    read_only: bool = False


def places(task: protocol.NodeTask, root: NodeRoot) -> list[ContainerMount]:
    """Return the mounts for `task`: what its ranks need of the node, then those of the user. Raises MountError."""
    assert task.container is not None
    home = task.env.get("HOME", "/")
    found = [ContainerMount(path, path) for path in OF_THE_NODE if os.path.isdir(path)]
    found += [
        ContainerMount(path, path, is_directory=False, read_only=True)
        for path in FILES_OF_THE_NODE
        if os.path.isfile(path)
    ]
    found += [ContainerMount("", home)] if home != "/" else []
    found.append(ContainerMount(root.path, root.path))
    if task.workdir != "/" and os.path.isdir(task.workdir):
        found.append(ContainerMount(task.workdir, task.workdir))
    for mount in task.container.mounts:
        if not os.path.exists(mount.source):
            raise MountError(f"--container-mount {mount.source}:{mount.target}: {mount.source} does not exist")
        found.append(ContainerMount(mount.source, mount.target, os.path.isdir(mount.source), mount.read_only))
    return list({place.target: place for place in found}.values())


def words(image: str, places: Sequence[ContainerMount]) -> list[str]:
    """Return the arguments that mount the directory `image` as / and then `places` in it. Raises MountError."""
    places = [place for place in places if place.source or _kind(image + place.target) is None]
    rebuilt = _rebuilt(image, places)
    found = [] if "/" in rebuilt else ["--ro-bind", image, "/"]
    for directory in sorted(rebuilt, key=lambda path: path.count("/") if path != "/" else 0):
        found += _in_memory(image, directory, rebuilt[directory])
    for place in sorted(places, key=lambda place: place.target.count("/")):
        if not place.source:
            found += ["--tmpfs", place.target]
        elif place.target == "/dev":
            found += ["--dev-bind", place.source, place.target]
        else:
            found += ["--ro-bind" if place.read_only else "--bind", place.source, place.target]
    return found


def _rebuilt(image: str, places: Sequence[ContainerMount]) -> dict[str, set[str]]:
    """Return the directories of the image that lack a place, each with the entries that are left out of them."""
    found: dict[str, set[str]] = {}
    for place in places:
        above = "/"
        parts = place.target.strip("/").split("/")
        for number, part in enumerate(parts, 1):
            path = os.path.join(above, part)
            is_directory = place.is_directory or number < len(parts)
            kind = _kind(image + path)
            if kind is None or kind != ("directory" if is_directory else "file"):
                found.setdefault(above, set()).add(part)
                break
            above = path
    return found


def _kind(path: str) -> str | None:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def _in_memory(image: str, directory: str, left_out: set[str]) -> Iterator[str]:
    """Yield the arguments that make `directory` one in memory, with the entries of the image but `left_out`."""
    yield from ("--tmpfs", directory)
    entries = sorted(os.listdir(image + directory))
    if len(entries) > MOST_ENTRIES:
        raise MountError(f"the image has more than {MOST_ENTRIES} entries in {directory}, where a mount needs a place")
    for entry in entries:
        if entry in left_out:
            continue
        path = os.path.join(directory, entry)
        if os.path.islink(image + path):
            yield from ("--symlink", os.readlink(image + path), path)
        else:
            yield from ("--ro-bind", image + path, path)
