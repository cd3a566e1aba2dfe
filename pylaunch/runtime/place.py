"""Rank, world size and launcher of this process, read from its environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping

DEFAULT_PORT = 29500
TASKS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
"""Variables with the number of processes that srun or mpirun has started, which have no variables of torch."""


class LaunchError(Exception):
    """The environment lacks the rank of this process or the address of rank 0, or contradicts itself."""


@dataclass(frozen=True)
class Place:
    """Place of one rank among all ranks."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    """Number of ranks on this node; 1 where the launcher does not set it."""

    address: str
    """Address of rank 0; "" for a world size of 1."""

    port: int
    launcher: str
    """pylaunch, torchrun, variables (RANK and WORLD_SIZE of any other launcher), or none."""


def place(environment: Mapping[str, str] | None = None) -> Place:
    """Return the place that `environment` (os.environ) describes; rank 0 of 1 without a launcher.

    Raises LaunchError for variables that are missing, contradict each other or are no numbers.
    """
    env = os.environ if environment is None else environment
    if "RANK" not in env and "WORLD_SIZE" not in env:
        for name in TASKS:
            if env.get(name, "1") != "1":
                raise LaunchError(f"{name} is {env[name]} and RANK is not set: each rank would be alone in its world")
        return Place(0, 1, 0, 1, "", 0, "none")
    missing = [name for name in ("RANK", "WORLD_SIZE") if name not in env]
    if missing:
        others = "RANK" if missing == ["WORLD_SIZE"] else "WORLD_SIZE"
        raise LaunchError(f"{others} is set and {missing[0]} is not: the launcher must set both")
    rank, world_size = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    local_rank = _number(env, "LOCAL_RANK") if "LOCAL_RANK" in env else 0
    address = env.get("MASTER_ADDR", "")
    if not 0 <= rank < world_size:
        raise LaunchError(f"RANK={rank} is out of range for WORLD_SIZE={world_size}")
    if world_size > 1 and not address:
        raise LaunchError(f"MASTER_ADDR is not set: it must name the host of rank 0, for all {world_size} ranks")
    if world_size > 1 and "LOCAL_RANK" not in env:
        raise LaunchError("LOCAL_RANK is not set: it selects the device of this rank")
    on_node = env.get("LOCAL_WORLD_SIZE") or env.get("LOCAL_SIZE", "")  # The latter is DeepSpeed's.
    local_world_size = int(on_node) if on_node.isdecimal() else 1
    port = _number(env, "MASTER_PORT") if "MASTER_PORT" in env else DEFAULT_PORT
    return Place(rank, world_size, local_rank, local_world_size, address, port, _launcher(env))


def _launcher(env: Mapping[str, str]) -> str:
    if "PYLAUNCH_RANK" in env:
        return "pylaunch"
    return "torchrun" if "TORCHELASTIC_RUN_ID" in env else "variables"


def _number(env: Mapping[str, str], name: str) -> int:
    try:
        return int(env[name])
    except ValueError:
        raise LaunchError(f"{name}: expected a whole number, got {env[name]!r}") from None
