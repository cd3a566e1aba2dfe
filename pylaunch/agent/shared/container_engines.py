"""Engines that make a container of an image, and their command lines.

An engine runs one waiting shell of the image. The ranks join its file system (`agent/containers.py`) and keep all else
of their node, so that the command lines ask for the driver, the devices and shared memory of the node, and for its
user.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping, Sequence

from pylaunch.agent.shared import programs, rank_files
from pylaunch.agent.shared.essentials import NVIDIA_VERSION
from pylaunch.base.layout import RunDirectory
from pylaunch.protocol.node_task import MountTask

APPTAINER = ("apptainer", "singularity")
ENROOT = "enroot"
OCI = ("podman", "docker")
"""Engines with a store of images, which have names there."""

OF_THE_NODE = {"podman": ("/dev", "/tmp"), "docker": ("/dev", "/tmp"), ENROOT: ("/tmp",)}
"""Directories that an engine would not show as they are on the node."""

INSPECT_S = 20.0
REMOVE_S = 8.0
"""Time to remove a container, or to look for it."""

MOST_TEXT = 150
"""Characters of an error, before the line that removes the container: proofs keep 300 of both."""

SETTLED_S = 120.0
"""Age of a note from which a daemon that answers has completed the request of its client: twice the time of a start."""

THERE, ABSENT, AWAITED, LEFT = "there", "absent", "awaited", "left"
"""States of a container. AWAITED: not there, and may follow; LEFT: there, or not known."""

NOTE = "container"
"""File of a run: the engine that may keep a container of it, and when that was asked, on `_clock`."""


def engines_for(image: str) -> tuple[str, ...]:
    """Return the engines that can run `image`, the preferred one first: a path is a file, all else a name."""
    if not image.startswith("/"):
        return OCI
    return (ENROOT, *APPTAINER) if image.endswith(".sqsh") else APPTAINER


def engine_of(image: str) -> str | None:
    """Return the first engine for `image` on PATH of this node; None without one."""
    return next((name for name in engines_for(image) if programs.path_of(name)), None)


def command(
    engine: str, image: str, mounts: Sequence[MountTask], env: Mapping[str, str], program: Sequence[str]
) -> list[str]:
    """Return the command line that runs `program` in a container of `image`, in the foreground."""
    uid, gid, has_gpu = os.getuid(), os.getgid(), os.path.exists(NVIDIA_VERSION)
    mounts = [*(MountTask(path, path) for path in OF_THE_NODE.get(engine, ())), *mounts]
    mounts = sorted({each.target: each for each in mounts}.values(), key=lambda each: each.target.count("/"))
    given = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    if engine == ENROOT:
        bound = [f"{m.source}:{m.target}:none:x-create=auto,rbind{',ro' * m.read_only}" for m in mounts]
        gpu = ["--env", "NVIDIA_VISIBLE_DEVICES=all"] if has_gpu else []
        words = ["start", "--rw", *gpu, *(word for each in bound for word in ("--mount", each)), *given, image]
        return [engine, *words, *program]
    bound = [f"type=bind,source={each.source},destination={each.target}" + ",ro" * each.read_only for each in mounts]
    given += [word for each in bound for word in ("--mount", each)]
    if engine in APPTAINER:
        # Without a user namespace, a container of a user who is not root could not be joined.
        words = ["exec", "--cleanenv", "--userns" if uid else "--no-home", *(["--nv"] if has_gpu else [])]
        return [engine, *words, *given, image, *program]
    words = ["run", "--rm", "--interactive", "--pull=never", "--network=host", "--ipc=host", "--pid=host"]
    words += ["--log-driver=none", "--security-opt=label=disable", f"--user={uid}:{gid}", "--entrypoint="]
    if engine == "podman":
        words += ["--security-opt=unmask=ALL", *(["--userns=keep-id"] if uid else [])]
        words += ["--device=nvidia.com/gpu=all"] if has_gpu else []
    else:
        words += ["--security-opt=systempaths=unconfined", *(["--gpus=all"] if has_gpu else [])]
    return [engine, *words, *given, image, *program]


def noted(directory: RunDirectory, words: list[str]) -> list[str]:
    """Return `words`, a command line of an engine, with a name for the container of a run, and note the engine.

    An engine of OCI removes its container at its end; if something ends the engine before, `remove_container` does.
    """
    engine, verb, *others = words
    if engine not in OCI:
        return words
    rank_files.replace(directory.file(NOTE), f"{engine} {int(_clock())}".encode())
    return [engine, verb, f"--name={_name(directory)}", *others]


def removal(directory: RunDirectory, *, has_ended: bool = False) -> tuple[str, str]:
    """Remove the container that an engine keeps for a run: THERE (it was, and is removed), ABSENT, AWAITED or LEFT.

    The second value describes the container. `has_ended`: its engine ended on its own, so that none can follow.
    """
    state, phrase = _asked(directory, ("rm", "--force"), has_ended=has_ended)
    if state in (THERE, ABSENT):
        with contextlib.suppress(FileNotFoundError):  # No container was noted, or another cleanup was faster.
            os.unlink(directory.file(NOTE))
    return state, phrase


def look(directory: RunDirectory) -> tuple[str, str]:
    """Return the state of the container of a run and what describes it. Changes nothing."""
    return _asked(directory, ("container", "inspect"), has_ended=False)


def remove_container(directory: RunDirectory, *, has_ended: bool = False) -> list[str]:
    """Remove the container of a run, if any; return why it is or may be left, [] if it is not there."""
    state, phrase = removal(directory, has_ended=has_ended)
    return [phrase] if state in (AWAITED, LEFT) else []


def kept_container(directory: RunDirectory) -> list[str]:
    """Return why the container of a run is or may be there, [] if it is not. Changes nothing."""
    state, phrase = look(directory)
    return [] if state == ABSENT else [phrase]


def _asked(directory: RunDirectory, verb: Sequence[str], *, has_ended: bool) -> tuple[str, str]:
    try:
        note = rank_files.read(directory.file(NOTE), 64).decode("ascii", "replace")
    except OSError:
        return ABSENT, ""
    engine, _, asked = note.partition(" ")
    what = f"container {_name(directory)} of run {directory.run} ({engine})"
    if engine not in OCI:
        return LEFT, f"{what}: {engine!r} is no engine"
    hint = f"to remove it: {engine} rm --force {_name(directory)}"
    try:
        ended = programs.ended([engine, *verb, _name(directory)], deadline_s=REMOVE_S)
    except (OSError, TimeoutError) as error:
        return LEFT, f"{what}: {error}; {hint}"
    if "no such container" in ended.errors.lower() or not (ended.status or ended.output.strip()):
        if has_ended or engine == "podman" or _is_settled(asked):
            return ABSENT, ""
        return AWAITED, f"{what}: not there, but its client ended early and the daemon may still make it; {hint}"
    if ended.status == 0:
        return THERE, what
    why = ended.errors.strip()[-MOST_TEXT:] or f"exit code {ended.status}"
    return LEFT, f"{what}: {why}; {hint}"


def _clock() -> float:
    """Return the time since boot, which no change of the clock and no server of files moves."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_settled(asked: str) -> bool:
    """Return True if a note of that time is old enough, or from before the node was restarted."""
    try:
        return not 0.0 <= _clock() - float(asked) < SETTLED_S
    except ValueError:  # A rank has written it.
        return False


def _name(directory: RunDirectory) -> str:
    """Return the name of the container of a run: one machine may have several nodes of it, each with its own root."""
    return "pylaunch-" + hashlib.sha256(directory.path.encode()).hexdigest()[:16]


def image_id(engine: str, image: str) -> str:
    """Return the id of a named image in the store of `engine`. Raises OSError if it is not there."""
    ended = programs.ended([engine, "image", "inspect", "--format={{.Id}}", image], deadline_s=INSPECT_S)
    if ended.status != 0:
        lines = ended.errors.strip().splitlines() or [f"exit status {ended.status}"]
        raise OSError(f"{engine} has no image {image}: {lines[-1]}")
    found = ended.output.strip()
    return found if found.startswith("sha256:") else f"sha256:{found}"
