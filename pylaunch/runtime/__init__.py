"""Functions for training scripts, under any launcher: `from pylaunch import runtime`.

    runtime.init()                          initialize torch.distributed or JAX with all other ranks
    runtime.rank(), world_size(), …         place of this rank, also before init
    runtime.step(n)                         report progress
    runtime.roles()                         hosts and endpoints of the roles of a job

Standard library only, Python 3.8 or newer; torch and JAX are used if the script has imported them. It is on the path of
every rank that pylaunch starts. Without a launcher, the world size is 1.

    place         rank and world size, read from the environment of the launcher
    initialize    initialization of torch and JAX
    failure       the exception that ended a rank, in a file
    progress      the last step, in a file of one record
    roles         roles of a job, from the environment
    __main__      `python -m pylaunch.runtime SCRIPT`
"""

from __future__ import annotations

from pylaunch.runtime.initialize import init
from pylaunch.runtime.place import LaunchError, Place, place
from pylaunch.runtime.progress import step
from pylaunch.runtime.roles import RoleHosts, roles

__all__ = [
    "LaunchError",
    "Place",
    "RoleHosts",
    "init",
    "is_main",
    "local_rank",
    "place",
    "rank",
    "roles",
    "step",
    "world_size",
]


def rank() -> int:
    """Return the number of this rank, from 0."""
    return place().rank


def world_size() -> int:
    """Return the number of ranks."""
    return place().world_size


def local_rank() -> int:
    """Return the number of this rank on its node, from 0, which is the index of its device."""
    return place().local_rank


def is_main() -> bool:
    """Return whether this is rank 0, which prints and saves."""
    return place().rank == 0
