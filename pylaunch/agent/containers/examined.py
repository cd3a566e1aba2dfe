"""Preparation of a container: make it, and ask in it what `node_checks` and `essentials` ask on the node."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from pylaunch import protocol
from pylaunch.agent.containers.container import ContainerError, JoinableContainer, start_container
from pylaunch.agent.run import node_checks
from pylaunch.agent.shared.essentials import essentials, installed_libraries
from pylaunch.agent.shared.programs import path_of
from pylaunch.base.dataclass import replace
from pylaunch.base.layout import NodeRoot
from pylaunch.protocol.node_task import CONTAINER_IMAGE

Facts = Tuple[Dict[str, str], Dict[str, str]]
USER_SITE = {"PYTHONNOUSERSITE": "1"}
"""Packages in the home directory are those of the node's Python, not of the image's."""


def prepared(
    task: protocol.NodeTask, root: NodeRoot
) -> tuple[protocol.NodeTask, JoinableContainer | None, list[protocol.Reason], Facts]:
    """Return `task` with the variables of its image below its own, the container, reasons, essentials and libraries."""
    container = None
    try:
        container = start_container(task, root)
        within = replace(task, env={**USER_SITE, **container.env, **task.env})
        found = container.inside(lambda: _answers(within))
    except ContainerError as error:
        return task, container, [error.reason], ({}, {})
    except (OSError, ValueError) as error:
        return task, container, [protocol.Reason("container", f"the container cannot be made: {error}")], ({}, {})
    reasons = [protocol.Reason(*each) for each in found["reasons"]]
    return within, container, reasons, ({CONTAINER_IMAGE: container.digest, **found["essentials"]}, found["libraries"])


def _answers(task: protocol.NodeTask) -> dict[str, Any]:
    python = path_of(task.python, task.env.get("PATH")) or "" if task.python else ""
    return {
        "reasons": [(each.code, each.message, each.hint) for each in node_checks.of_programs(task)],
        "essentials": essentials(python),
        "libraries": installed_libraries(python),
    }
