"""Initialization of torch.distributed or JAX with all other ranks, and barriers afterwards.

The framework is the one that the script has imported. This module imports neither before it is needed.
"""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Iterator

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


def barrier() -> None:
    """Wait for every rank. Returns at once for a world size of 1. Raises RuntimeError before `init`."""
    mine = place()
    if mine.world_size == 1:
        return
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        dist.barrier()
        return
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        from jax.experimental import multihost_utils  # noqa: PLC0415 -- jax is there

        multihost_utils.sync_global_devices("pylaunch.runtime.barrier")
        return
    raise RuntimeError(f"barrier: rank {mine.rank} of {mine.world_size} is not initialized; call init() first")


@contextlib.contextmanager
def main_process_first(*, local: bool = False) -> Iterator[None]:
    """Run the block on rank 0 first, then on all others; with `local`, on the first rank of each node first.

    Use it for downloads and preparation, which the other ranks then find done.
    """
    mine = place()
    is_first = mine.local_rank == 0 if local else mine.rank == 0
    if not is_first:
        barrier()
    yield
    if is_first:
        barrier()


def seed(base: int) -> int:
    """Seed the generators of Python, and of NumPy and torch if imported, with `base` + rank.

    Returns the seed, for `jax.random.key` and further generators.
    """
    number = base + place().rank
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)
    return number
