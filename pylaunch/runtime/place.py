"""Rank, world size and launcher of this process, read from its environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Mapping

DEFAULT_PORT = 29500
_ORTE_ADDRESS = re.compile(r"tcp6?://\[?([^,\];]+?)(?:\]|,|:\d+(?:;|$))")
_PRRTE_HOST = re.compile(r"prte(?:run)?-(.+)-\d+@\d+$")
LOOPBACK = "127.0.0.1"


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
    """pylaunch, torchrun, slurm, openmpi, variables (RANK and WORLD_SIZE of any other launcher), or none."""


def place(environment: Mapping[str, str] | None = None) -> Place:
    """Return the place that `environment` (os.environ) describes; rank 0 of 1 without a launcher.

    The launcher that is closest to this process wins: RANK and WORLD_SIZE over Open MPI over Slurm, because mpirun
    starts its daemons with srun, and their variables reach the ranks. Raises LaunchError for variables that are
    missing, contradict each other or are no numbers.
    """
    env = os.environ if environment is None else environment
    if "RANK" in env or "WORLD_SIZE" in env:
        return _of_variables(env)
    if "OMPI_COMM_WORLD_RANK" in env:
        return _of_open_mpi(env)
    if "SLURM_PROCID" in env and "SLURM_STEP_NODELIST" in env:
        return _of_slurm(env)
    return Place(0, 1, 0, 1, "", 0, "none")


def _of_variables(env: Mapping[str, str]) -> Place:
    launcher = "variables"
    if "PYLAUNCH_RANK" in env:
        launcher = "pylaunch"
    elif "TORCHELASTIC_RUN_ID" in env:
        launcher = "torchrun"
    address = env.get("MASTER_ADDR", "")
    on_node = "LOCAL_WORLD_SIZE" if "LOCAL_WORLD_SIZE" in env else "LOCAL_SIZE"  # The latter is DeepSpeed's.
    return _checked(env, ("RANK", "WORLD_SIZE", "LOCAL_RANK", on_node), address, launcher)


def _of_slurm(env: Mapping[str, str]) -> Place:
    """Read Slurm's variables: rank 0 is on the first host of the step, and the port is derived as JAX derives it."""
    address = env.get("MASTER_ADDR") or first_host(env["SLURM_STEP_NODELIST"])
    names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "")
    job = env.get("SLURM_JOB_ID", "0")
    port = int(job) % 4096 + 61440 if job.isdecimal() else DEFAULT_PORT
    found = _checked(env, names, address, "slurm", port)
    counts = tasks_per_node(env.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = env.get("SLURM_NODEID", "")
    here = counts[int(node)] if node.isdecimal() and int(node) < len(counts) else 1
    return replace(found, local_world_size=here)


def _of_open_mpi(env: Mapping[str, str]) -> Place:
    """Read Open MPI's variables. Without MASTER_ADDR, the address is that of mpirun, which must run on the first node.

    Version 4 has the address of mpirun in the URI of its head process, version 5 its host name in the namespace of the
    job. Ranks on one node meet at the loopback address.
    """
    names = tuple("OMPI_COMM_WORLD_" + name for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
    found = _ORTE_ADDRESS.search(env.get("OMPI_MCA_orte_hnp_uri", ""))
    found = found or _PRRTE_HOST.match(env.get("PMIX_NAMESPACE", ""))
    address = found.group(1) if found else ""
    if env.get(names[1]) == env.get(names[3]):
        address = LOOPBACK
    address = env.get("MASTER_ADDR") or address
    return _checked(env, (names[0], names[1], names[2], names[3]), address, "openmpi")


def _checked(
    env: Mapping[str, str], names: tuple[str, str, str, str], address: str, launcher: str, port: int = DEFAULT_PORT
) -> Place:
    missing = [name for name in names[:2] if name not in env]
    if missing:
        others = " and ".join(name for name in names[:2] if name in env)
        raise LaunchError(f"{others} is set and {missing[0]} is not: the launcher must set both")
    rank, world_size = _number(env, names[0]), _number(env, names[1])
    local_rank = _number(env, names[2]) if names[2] in env else 0
    if not 0 <= rank < world_size:
        raise LaunchError(f"{names[0]}={rank} is out of range for {names[1]}={world_size}")
    if world_size > 1 and not address:
        raise LaunchError(f"MASTER_ADDR is not set: it must name the host of rank 0, for all {world_size} ranks")
    if world_size > 1 and names[2] not in env:
        raise LaunchError(f"{names[2]} is not set: it selects the device of this rank")
    on_node = env.get(names[3], "1")
    local_world_size = int(on_node) if on_node.isdecimal() else 1
    if "MASTER_PORT" in env:
        port = _number(env, "MASTER_PORT")
    return Place(rank, world_size, local_rank, local_world_size, address, port, launcher)


def _number(env: Mapping[str, str], name: str) -> int:
    try:
        return int(env[name])
    except ValueError:
        raise LaunchError(f"{name}: expected a whole number, got {env[name]!r}") from None


def tasks_per_node(text: str) -> list[int]:
    """Expand Slurm's number of ranks on each node: "4(x2),1" -> [4, 4, 1]. Empty for other text."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.match(r"(\d+)(?:\(x(\d+)\))?$", part)
        if match is None:
            return []
        counts += [int(match.group(1))] * int(match.group(2) or 1)
    return counts


def first_host(nodelist: str) -> str:
    """Return the first host of a Slurm node list: "gpu[003-004,7],login" -> "gpu003"."""
    head = re.match(r"[^\[,]*", nodelist)
    prefix = head.group(0) if head else ""
    rest = nodelist[len(prefix) :]
    if not rest.startswith("["):
        return prefix
    inside, _, after = rest[1:].partition("]")
    return prefix + re.split(r"[-,]", inside)[0] + re.split(r"[,\[]", after)[0]
