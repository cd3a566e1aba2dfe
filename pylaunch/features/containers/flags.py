"""Options of a start that give its ranks a container."""

import re
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.model.job import Container, JobSpec
from pylaunch.model.text.argv import quoted
from pylaunch.protocol.node_task import MountTask
from pylaunch.terminal.options import Group, Option

READ_ONLY = "ro"
NOT_REPLACED = ("/proc", "/sys", "/dev")
"""Directories that ranks see as they are on the node: a mount over one of them hides devices and processes."""

NAME = re.compile(r"[A-Za-z0-9][\w.:/@-]*")
"""Name of an image: registry, repository, tag and digest, as podman and docker write it."""

PYTHON = "python3"
"""Interpreter of ranks in a container, found on PATH there."""

OPTIONS = (
    Option(
        name="container", group=Group.CONTAINER, metavar="IMAGE", verbs=("start", "check"),
        help="Root directory of the ranks: the name of an image of podman or docker on every node, or the path of a "
        "SIF or squashfs for apptainer or enroot.",
    ),
    Option(
        name="container_mount", group=Group.CONTAINER, multiple=True, default=(), metavar="SRC:DST[:ro]",
        verbs=("start", "check"),
        help="Directory or file of the node that ranks in the container see. Repeatable.",
    ),
)  # fmt: skip


def in_job(given: MutableMapping[str, Any]) -> Callable[[JobSpec], JobSpec]:
    """Take the values of OPTIONS, at least one of which is set, out of `given`; return what they change in a job.

    Raises UsageError.
    """
    image: str | None = given.pop("container")
    words: Sequence[str] = given.pop("container_mount")
    if image is None:
        # Each role of a job file may have an image: that is known when its job is made.
        def bare(_: JobSpec) -> JobSpec:
            raise UsageError(
                f"--container-mount {' '.join(words)}: the ranks have no container",
                hint="--container IMAGE, or omit --container-mount",
            )

        return bare
    _leave_out_of_tree(image, given)
    container = Container(_on_nodes(image), _mounts(words))

    def changed(job: JobSpec) -> JobSpec:
        return replace(job, container=container, python=job.python or PYTHON)

    return changed


def _leave_out_of_tree(image: str, given: MutableMapping[str, Any]) -> None:
    """Exclude an image that is in the tree to ship: nodes have it."""
    path, tree = Path(image).resolve(), Path(given.get("sync") or "/dev/null").resolve()
    if path.is_relative_to(tree) and path.exists():
        pattern = re.sub(r"([\\*?\[ ])", r"\\\1", f"/{path.relative_to(tree)}")
        given["sync_exclude"] = (*given.get("sync_exclude", ()), pattern)


def _mounts(words: Sequence[str]) -> tuple[MountTask, ...]:
    mounts = tuple(map(_mount, words))
    twice = [mount.target for mount in mounts if sum(mount.target == each.target for each in mounts) > 1]
    if twice:
        raise UsageError(f"--container-mount: two mounts at {twice[0]}", hint="give each DST once")
    return mounts


def _on_nodes(image: str) -> str:
    if image.startswith("/"):
        return _absolute("--container", image)
    if Path(image).is_file() or "://" in image or not NAME.fullmatch(image):
        here = image if Path(image).is_file() else "image.sif"
        made = f"apptainer build image.sif {quoted((image,))}; " if "://" in image else ""
        hint = f"{made}pylaunch push {quoted((here,))} /data/, then --container {quoted((f'/data/{Path(here).name}',))}"
        raise UsageError(
            f"--container {image}: neither an absolute path on the nodes nor the name of an image", hint=hint
        )
    return image


def _mount(word: str) -> MountTask:
    source, colon, rest = word.partition(":")
    target, _, mode = rest.partition(":")
    if not colon or mode not in ("", READ_ONLY):
        raise UsageError(
            f"--container-mount {word}: expected SRC:DST or SRC:DST:ro", hint="--container-mount /data:/data:ro"
        )
    option = f"--container-mount {word}"
    mount = MountTask(_absolute(option, source), _absolute(option, target), read_only=mode == READ_ONLY)
    if mount.target == "/":
        raise UsageError(f"{option}: a mount cannot replace the image", hint=f"--container-mount {source}:/data")
    if mount.target in NOT_REPLACED or mount.target.startswith(("/proc/", "/sys/")):
        raise UsageError(f"{option}: {mount.target} is that of the node", hint=f"--container-mount {source}:/data")
    return mount


def _absolute(option: str, path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/") or "," in path:
        raise UsageError(
            f"{option}: expected an absolute path without a comma, got {path!r}", hint=str(Path(path).resolve())
        )
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
