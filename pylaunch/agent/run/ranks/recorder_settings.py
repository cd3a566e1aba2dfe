"""Settings of torch's flight recorder: keep the last collectives of a rank, and write them when NCCL times out."""

from __future__ import annotations

import re

from pylaunch import protocol
from pylaunch.agent.shared.essentials import installed_libraries
from pylaunch.base.layout import RunDirectory

RECORDED = "2000"
"""Collectives that a rank keeps: the default of torch from 2.11 on; older versions keep none."""

NEWER = (2, 8)
"""Version of torch from which on it warns of the names that older versions know."""

OLDER_NAMES = {
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE": "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}
TRACES = "ranks/nccl-trace-"
"""Beginning of the path of NCCL's dumps, to which torch appends the rank."""


def settings(task: protocol.NodeTask, directory: RunDirectory) -> dict[str, str]:
    """Return the variables for the torch beside the interpreter of the ranks.

    For a torch that is elsewhere they have the newer names alone: an older torch records nothing then, which costs a
    run nothing, but a newer one would print a warning in each rank about the names of an older one.
    """
    found = {"TORCH_FR_BUFFER_SIZE": RECORDED, "TORCH_FR_DUMP_TEMP_FILE": directory.file(TRACES)}
    numbers = re.match(r"(\d+)\.(\d+)", installed_libraries(task.python).get("torch", ""))
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < NEWER:
        found.update({OLDER_NAMES[name]: value for name, value in list(found.items())})
    return {**found, "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
