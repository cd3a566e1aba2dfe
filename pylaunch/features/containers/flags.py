"""Options of a start that give its ranks a container."""

import contextlib
import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.inventory.settings import SETTINGS, read_settings
from pylaunch.model.job import Container, JobSpec
from pylaunch.model.text.argv import quoted
from pylaunch.protocol.node_task import MountTask
from pylaunch.terminal.option import Group, Option

READ_ONLY = "ro"
NOT_REPLACED = ("/proc", "/sys", "/dev")
"""Directories that ranks see as they are on the node: a mount over one of them hides devices and processes."""

NAME = re.compile(r"[A-Za-z0-9][\w.:/@-]*")
"""Name of an image: registry, repository, tag and digest, as podman and docker write it."""

PYTHON = "python3"
"""Interpreter of ranks in a container, found on PATH there."""

NONE = "none"
"""Value of --container for ranks without one, against a default."""

WITH_IMAGE = "--container IMAGE, or omit --container-mount"
AN_IMAGE = 'image = "/data/torch.sif" there, or image = "none" if only a start with --container IMAGE has the mounts'

OPTIONS = (
    Option(
        name="container", group=Group.CONTAINER, metavar="IMAGE", verbs=("start", "check"),
        help="Root directory of the ranks: the name of an image of podman or docker on every node, or the path of a "
        "SIF or squashfs for apptainer or enroot; none: no container.",
    ),
    Option(
        name="container_mount", group=Group.CONTAINER, multiple=True, default=(), metavar="SRC:DST[:ro]",
        verbs=("start", "check"),
        help="Directory or file of the node that ranks in the container see. Repeatable.",
    ),
)  # fmt: skip


def in_job(given: MutableMapping[str, Any]) -> Callable[[JobSpec], JobSpec]:
    """Take the values of OPTIONS out of `given`, and return what they change in a job. Raises UsageError.

    Values that are not given are those of the settings in the working directory.
    """
    typed_image, typed_mounts = given.pop("container"), given.pop("container_mount")
    own = given.get("own", ())
    settings = read_settings(Path.cwd())
    image: str | None = typed_image or settings.container_image
    are_mounts_given = typed_mounts or "container_mount" in own
    words = typed_mounts if are_mounts_given else settings.container_mounts
    if image is None or image == NONE:
        is_overridden = "container" in own and "container_mount" not in own  # A role keeps out of the image of others.
        if is_overridden or not words or not (typed_mounts or image is None):
            return lambda job: job

        def refused(job: JobSpec) -> JobSpec:  # Not before it is called: each role of a job file may have an image.
            with _errors_of(typed_mounts):
                where = f"--container-mount {' '.join(words)}"
                raise UsageError(f"{where}: the ranks have no container", hint=WITH_IMAGE if typed_mounts else AN_IMAGE)

        return refused
    _leave_out_of_tree(image, given)
    with _errors_of(are_mounts_given):
        mounts = _mounts(words)
    with _errors_of(typed_image):
        container = Container(_on_nodes(image), mounts)

    def changed(job: JobSpec) -> JobSpec:
        return replace(job, container=container, python=job.python or PYTHON)

    return changed


def _leave_out_of_tree(image: str, given: MutableMapping[str, Any]) -> None:
    """Exclude an image that is in the tree to ship: nodes have it."""
    path, tree = Path(image).resolve(), Path(given.get("sync") or "/dev/null").resolve()
    if path.is_relative_to(tree) and path.exists():
        pattern = re.sub(r"([\\*?\[ ])", r"\\\1", f"/{path.relative_to(tree)}")
        given["sync_exclude"] = (*given.get("sync_exclude", ()), pattern)


@contextlib.contextmanager
def _errors_of(typed: object) -> Iterator[None]:
    """Name the settings in errors of a block, if the value that it reads was not typed."""
    try:
        yield
    except UsageError as error:
        error.message = error.message if typed else f"{SETTINGS}: [container]: {error.message}"
        raise


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
