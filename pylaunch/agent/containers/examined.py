"""Preparation of a container: make it, and ask in it what `node_checks` and `essentials` ask on the node."""

from __future__ import annotations

import os

from pylaunch import protocol
from pylaunch.agent.containers.container import ContainerError, JoinableContainer, start_container
from pylaunch.agent.run import node_checks
from pylaunch.agent.shared.essentials import essentials, installed_libraries
from pylaunch.agent.shared.programs import path_of
from pylaunch.base.layout import NodeRoot, RunDirectory
from pylaunch.protocol.node_task import CONTAINER_IMAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    Facts = tuple[dict[str, str], dict[str, str]]


def prepared(
    task: protocol.NodeTask, root: NodeRoot, directory: RunDirectory
) -> tuple[JoinableContainer | None, list[protocol.Reason], Facts]:
    """Return the container of `task`, the reasons against ranks in it, and its essentials and libraries."""
    container = None
    try:
        driver = _driver_library()
        container = start_container(task, root, directory)
        found = container.inside(lambda: _answers(task, driver))
    except ContainerError as error:
        return container, [error.reason], ({}, {})
    except (OSError, ValueError) as error:
        return container, [protocol.Reason("container", f"the container cannot be made: {error}")], ({}, {})
    reasons = [protocol.Reason(*each) for each in found["reasons"]]
    return container, reasons, ({CONTAINER_IMAGE: container.digest, **found["essentials"]}, found["libraries"])


GPU_DRIVER = "/proc/driver/nvidia/version"
CUDA = "libcuda.so.1"
LIBRARY_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64",
)  # fmt: skip


def _driver_library() -> str:
    """Return the path of the library of the driver here, or where it usually is."""
    paths = [os.path.join(directory, CUDA) for directory in LIBRARY_DIRECTORIES]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def _without_gpu(task: protocol.NodeTask, driver: str) -> Iterator[protocol.Reason]:
    """Refuse ranks with NVIDIA GPUs whose image lacks the library of the driver: it has to be that of the node."""
    searched = [*filter(None, task.env.get("LD_LIBRARY_PATH", "").split(":")), *LIBRARY_DIRECTORIES]
    if not task.devices or not os.path.exists(GPU_DRIVER):
        return
    if not any(os.path.exists(os.path.join(directory, CUDA)) for directory in searched):
        text = f"ranks use GPUs, and their container has no {CUDA}, the library of the driver of the node"
        hint = f"mount it, and others of the driver: --container-mount {driver}:{driver}:ro"
        yield protocol.Reason("container-gpu", text, hint)


def _answers(task: protocol.NodeTask, driver: str) -> dict[str, Any]:
    reasons = [*node_checks.of_programs(task), *_without_gpu(task, driver)]
    python = path_of(task.python, task.env.get("PATH")) or "" if task.python else ""
    return {
        "reasons": [(each.code, each.message, each.hint) for each in reasons],
        "essentials": essentials(python),
        "libraries": installed_libraries(python),
    }
