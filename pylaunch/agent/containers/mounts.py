"""Mounts of a container: an image as the root directory, with directories of the node, as arguments of bubblewrap.

The image is read-only, and a mount needs an existing place. Where the image lacks one, its nearest directory becomes a
read-only directory in memory that contains each entry of the image again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import NodeRoot
from pylaunch.protocol.node_task import MountTask

OF_THE_NODE = ("/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp")
"""Directories that ranks see as they are on the node: devices, shared memory, what ranks of one node exchange."""

FILES_OF_THE_NODE = ("/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/group")
"""Names of hosts and of the user. The node's users are those of a rank, so its file names are right."""

MOST_WORDS = 8_900
"""Arguments that bubblewrap takes, less those of `container.py`: each entry that is mounted again has three."""


class MountError(Exception):
    """A mount has no source, or the image has no place for it."""


@dataclass(frozen=True)
class ContainerMount(MountTask):
    """Mount, for which the image has to contain a directory or a file.

    Without a source, it is an empty directory in memory, where the image has nothing.
    """

    is_directory: bool = True


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
    found.append(ContainerMount(root.path, root.path))
    if task.workdir != "/" and os.path.isdir(task.workdir):
        found.append(ContainerMount(task.workdir, task.workdir))
    for mount in task.container.mounts:
        option = f"--container-mount {mount.source}:{mount.target}"
        if not os.path.exists(mount.source):
            raise MountError(f"{option}: {mount.source} does not exist")
        if f"{mount.target}/".startswith(f"{root.path}/"):
            raise MountError(f"{option}: {root.path} is the directory of pylaunch")
        found.append(ContainerMount(mount.source, mount.target, mount.read_only, os.path.isdir(mount.source)))
    found = list({place.target: place for place in found}.values())
    if home != "/" and _above(home, found) is None and home not in {place.target for place in found}:
        found.append(ContainerMount("", home))
    for place in found:
        _must_have_a_place(place, _above(place.target, found))
    return found


def _above(target: str, places: Sequence[ContainerMount]) -> ContainerMount | None:
    """Return the nearest mount of the node that contains `target`."""
    around = [place for place in places if place.source and target.startswith(f"{place.target}/")]
    return max(around, key=lambda place: len(place.target), default=None)


def _must_have_a_place(place: ContainerMount, above: ContainerMount | None) -> None:
    """Refuse a mount in another one that lacks it: bubblewrap would make a directory on the node, which would stay."""
    if above is None or (above.source, place.source) == (above.target, place.target):
        return
    found = above.source + place.target[len(above.target) :]
    if not os.path.exists(found):
        text = (
            f"{place.source}:{place.target} is in the mount {above.source}:{above.target}, and {found} does not exist"
        )
        raise MountError(f"--container-mount: {text}")


def words(image: str, places: Sequence[ContainerMount]) -> list[str]:
    """Return the arguments that mount the directory `image` as / and then `places` in it. Raises MountError."""
    places = [place for place in places if place.source or _kind(image + place.target) is None]
    rebuilt = _rebuilt(image, places)
    found = [] if "/" in rebuilt else ["--ro-bind", image, "/"]
    for directory in sorted(rebuilt, key=lambda path: path.count("/") if path != "/" else 0):
        found += _in_memory(image, directory, rebuilt[directory])
        if len(found) > MOST_WORDS - 3 * len(places) - 2 * len(rebuilt):
            entries = (
                f"{directory} of the image, or a directory above it, has too many entries (about {MOST_WORDS // 3})"
            )
            raise MountError(f"{entries} for a mount whose place it lacks: make the place in the image")
    for place in sorted(places, key=lambda place: place.target.count("/")):
        if not place.source:
            found += ["--tmpfs", place.target]
        elif place.target == "/dev":
            found += ["--dev-bind", place.source, place.target]
        else:
            found += ["--ro-bind" if place.read_only else "--bind", place.source, place.target]
    targets = {place.target for place in places}
    for directory in rebuilt:
        # What a rank wrote there would fill the memory of the node, and be lost. A mount of the node hides others.
        if directory not in targets and _above(directory, places) is None:
            found += ["--remount-ro", directory]
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
    for entry in sorted(os.listdir(image + directory)):
        if entry in left_out:
            continue
        path = os.path.join(directory, entry)
        if os.path.islink(image + path):
            yield from ("--symlink", os.readlink(image + path), path)
        else:
            yield from ("--ro-bind", image + path, path)
