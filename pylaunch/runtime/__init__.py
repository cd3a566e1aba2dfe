"""What a training script can ask of whoever launched it: `from pylaunch import runtime`.

    runtime.init()                          meet all other ranks, with torch or JAX, from any launcher
    runtime.rank(), world_size(), …         a rank's place; known before init as well
    runtime.barrier(), main_process_first() wait for each other
    runtime.step(n)                         how far this rank has come
    runtime.on_checkpoint_signal(save)      what to do when told to end

Standard library only, Python 3.8 or newer; torch and JAX are used if the script has imported them. It is in the path of
every rank that pylaunch starts, and works without a launcher, where the world is one.

    place        who launched us, and which of how many we are
    patience     trying again, and saying who is missing
    rollcall     all ranks are there, told over plain sockets
    worlds       the same for torch and JAX, which then begin
    failure      the exception that ended a rank, kept in a file
    progress     the last step, in a file of one record
    checkpoint   SIGTERM and what to do about it
    __main__     `python -m pylaunch.runtime SCRIPT`
"""

from __future__ import annotations

from pylaunch.runtime.checkpoint import on_checkpoint_signal
from pylaunch.runtime.patience import MissingRanksError, Patience
from pylaunch.runtime.place import LaunchError, Place, place
from pylaunch.runtime.progress import step
from pylaunch.runtime.worlds import barrier, init, main_process_first, seed

__all__ = [
    "LaunchError",
    "MissingRanksError",
    "Patience",
    "Place",
    "barrier",
    "init",
    "is_main",
    "local_rank",
    "main_process_first",
    "on_checkpoint_signal",
    "place",
    "rank",
    "seed",
    "step",
    "world_size",
]


def rank() -> int:
    """This rank's number in the world, from 0."""
    return place().rank


def world_size() -> int:
    """How many ranks there are."""
    return place().world_size


def local_rank() -> int:
    """This rank's number on its node, from 0: the index of its device."""
    return place().local_rank


def is_main() -> bool:
    """This is rank 0, which prints and saves."""
    return place().rank == 0
