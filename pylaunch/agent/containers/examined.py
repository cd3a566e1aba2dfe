"""Preparation of a container: make it, and ask in it what `node_checks` and `essentials` ask on the node."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Tuple

from pylaunch import protocol
from pylaunch.agent.containers import gpu_driver
from pylaunch.agent.containers.container import ContainerError, JoinableContainer, start_container
from pylaunch.agent.run import node_checks
from pylaunch.agent.shared.essentials import NVIDIA_VERSION, essentials, installed_libraries
from pylaunch.agent.shared.programs import path_of
from pylaunch.base.layout import NodeRoot, RunDirectory
from pylaunch.protocol.node_task import CONTAINER_IMAGE

Facts = Tuple[Dict[str, str], Dict[str, str]]


def prepared(
    task: protocol.NodeTask, root: NodeRoot, directory: RunDirectory
) -> tuple[JoinableContainer | None, list[protocol.Reason], Facts]:
    """Return the container of `task`, the reasons against ranks in it, and its essentials and libraries."""
    container = None
    try:
        container = start_container(task, root, directory)
        found = container.inside(lambda: _answers(task))
    except ContainerError as error:
        return container, [error.reason], ({}, {})
    except (OSError, ValueError) as error:
        return container, [protocol.Reason("container", f"the container cannot be made: {error}")], ({}, {})
    reasons = [protocol.Reason(*each) for each in found["reasons"]]
    return container, reasons, ({CONTAINER_IMAGE: container.digest, **found["essentials"]}, found["libraries"])


def _without_gpu(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Refuse ranks with NVIDIA GPUs where neither the node nor the image has the library of the driver."""
    searched = [*filter(None, task.env.get(gpu_driver.SEARCH_PATH, "").split(":")), *gpu_driver.DIRECTORIES]
    if not task.devices or not os.path.exists(NVIDIA_VERSION):
        return
    if not any(os.path.exists(os.path.join(directory, gpu_driver.CUDA)) for directory in searched):
        library = gpu_driver.CUDA
        text = f"ranks use GPUs, and {library}, the library of the driver, is neither in the image nor found here"
        target = f"{gpu_driver.DIRECTORIES[0]}/{library}"
        hint = f"mount it, and others of the driver: --container-mount PATH:{target}:ro"
        yield protocol.Reason("container-gpu", text, hint)


def _answers(task: protocol.NodeTask) -> dict[str, Any]:
    reasons = [*node_checks.of_programs(task), *_without_gpu(task)]
    python = path_of(task.python, task.env.get("PATH")) or "" if task.python else ""
    return {
        "reasons": [(each.code, each.message, each.hint) for each in reasons],
        "essentials": essentials(python),
        "libraries": installed_libraries(python),
    }
