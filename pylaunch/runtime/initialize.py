"""Initialization of torch.distributed or JAX with all other ranks.

The framework is the one that the script has imported. This module imports neither before it is needed.
"""

from __future__ import annotations

import sys

from pylaunch.runtime import failure
from pylaunch.runtime.place import Place, place

FRAMEWORKS = ("torch", "jax")


def init(framework: str | None = None, *, backend: str | None = None) -> Place:
    """Initialize torch's default process group, or JAX's distributed system, and return the place of this rank.

    `framework` is "torch" or "jax"; by default the one that the script has imported. `backend` is that of torch; by
    default nccl with CUDA, otherwise gloo. From here on, an uncaught exception is recorded for the launcher, which
    prints it.

    Raises the error of the framework if ranks do not connect within its time-out, LaunchError if the environment lacks
    the place of this rank, and ValueError for an ambiguous framework.
    """
    chosen = _chosen(framework)
    mine = place()
    failure.watch()
    if chosen == "torch":
        _init_torch(mine, backend)
    else:
        _init_jax(mine)
    return mine


def _chosen(framework: str | None) -> str:
    if framework is None:
        imported = [name for name in FRAMEWORKS if name in sys.modules]
        if len(imported) != 1:
            found = " and ".join(imported) or "neither torch nor jax"
            raise ValueError(f'init: {found} imported; choose one: init("torch") or init("jax")')
        return imported[0]
    if framework not in FRAMEWORKS:
        raise ValueError(f"init: expected torch or jax, got {framework!r}")
    return framework


def _init_torch(mine: Place, backend: str | None) -> None:
    import torch  # noqa: PLC0415 -- a script for JAX must not pay for it
    import torch.distributed as dist  # noqa: PLC0415

    on_cuda = torch.cuda.is_available()
    if on_cuda:
        torch.cuda.set_device(mine.local_rank % torch.cuda.device_count())
    if dist.is_initialized():
        return
    backend = backend or ("nccl" if on_cuda else "gloo")
    if mine.launcher == "none":
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        return
    where = f"tcp://{in_url(mine.address)}:{mine.port}"
    dist.init_process_group(backend, init_method=where, rank=mine.rank, world_size=mine.world_size)


def _init_jax(mine: Place) -> None:
    import jax  # noqa: PLC0415 -- a script for torch must not pay for it

    if mine.world_size == 1 or jax.distributed.is_initialized():
        return
    jax.distributed.initialize(
        coordinator_address=f"{in_url(mine.address)}:{mine.port}",
        num_processes=mine.world_size,
        process_id=mine.rank,
        local_device_ids=[mine.local_rank] if mine.local_world_size > 1 else None,
    )


def in_url(address: str) -> str:
    """Return `address` as it is written before a port."""
    return f"[{address}]" if ":" in address else address
