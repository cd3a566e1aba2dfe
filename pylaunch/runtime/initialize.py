"""Initialization of torch.distributed or JAX with all other ranks, and barriers afterwards.

The framework is the one that the script has imported. This module imports neither before it is needed.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from datetime import timedelta
from typing import Any, Iterator

from pylaunch.runtime import failure, fallback
from pylaunch.runtime.patience import MissingRanksError, Patience, gather
from pylaunch.runtime.place import LaunchError, Place, place
from pylaunch.runtime.rollcall import RollCallClient, RollCallServer

FRAMEWORKS = ("torch", "jax")
STORE_TIMEOUT = timedelta(seconds=60)


def init(framework: str | None = None, *, patience: Patience | None = None, backend: str | None = None) -> Place:
    """Initialize torch's default process group, or JAX's distributed system, and return the place of this rank.

    `framework` is "torch" or "jax"; by default the one that the script has imported. `backend` is that of torch; by
    default nccl with CUDA, unless `pylaunch start --fallback` changed it, otherwise gloo. Each try of `patience`
    reports the missing ranks. From here on, an uncaught exception is recorded for the launcher, which prints it.

    Raises MissingRanksError if ranks do not connect, LaunchError if the environment lacks the place of this rank, and
    ValueError for an ambiguous framework.
    """
    chosen = _chosen(framework)
    mine = place()
    failure.watch()
    if chosen == "torch":
        _init_torch(mine, patience or Patience(), backend)
    else:
        _init_jax(mine, patience or Patience())
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


def _init_torch(mine: Place, patience: Patience, backend: str | None) -> None:
    import torch  # noqa: PLC0415 -- a script for JAX must not pay for it
    import torch.distributed as dist  # noqa: PLC0415

    on_cuda = torch.cuda.is_available()
    if on_cuda:
        torch.cuda.set_device(mine.local_rank % torch.cuda.device_count())
    if dist.is_initialized():
        return
    backend = backend or (fallback.backend("nccl") if on_cuda else "gloo")
    if mine.launcher == "none":
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        return
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store = dist.TCPStore(mine.address, mine.port, mine.world_size, is_master=False, timeout=STORE_TIMEOUT)
        gather(_StoreRollCall(store, mine).attempt, mine.world_size, patience)
    else:
        roll_call(mine, patience)
    where = f"tcp://{in_url(mine.address)}:{mine.port}"
    dist.init_process_group(backend, init_method=where, rank=mine.rank, world_size=mine.world_size)


class _StoreRollCall:
    """Roll call over the store of torchrun, which occupies the port."""

    def __init__(self, store: Any, mine: Place) -> None:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = store
        self._keys = {rank: f"pylaunch/roll/{attempt}/{rank}" for rank in range(mine.world_size)}
        store.set(self._keys[mine.rank], "here")

    def attempt(self, wait_s: float) -> frozenset[int]:
        """Wait up to `wait_s` for all ranks; return the missing ones."""
        import torch.distributed as dist  # noqa: PLC0415 -- there is a store, so it is imported

        try:
            self._store.wait(list(self._keys.values()), timedelta(seconds=wait_s))
        except dist.DistStoreError:
            return frozenset(rank for rank, key in self._keys.items() if not self._store.check([key]))
        return frozenset()


def _init_jax(mine: Place, patience: Patience) -> None:
    import jax  # noqa: PLC0415 -- a script for torch must not pay for it

    if mine.world_size == 1 or jax.distributed.is_initialized():
        return
    roll_call(mine, patience)
    jax.distributed.initialize(
        coordinator_address=f"{in_url(mine.address)}:{mine.port}",
        num_processes=mine.world_size,
        process_id=mine.rank,
        local_device_ids=[mine.local_rank] if mine.local_world_size > 1 else None,
    )


def in_url(address: str) -> str:
    """Return `address` as it is written before a port."""
    return f"[{address}]" if ":" in address else address


def roll_call(mine: Place, patience: Patience) -> None:
    """Wait for all ranks over plain sockets, on the port that the framework uses afterwards."""
    names = ("PYLAUNCH_RUN", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")  # The first differs between attempts.
    run = next(filter(None, map(os.environ.get, names)), "")
    side: RollCallServer | RollCallClient
    if mine.rank == 0:
        side = RollCallServer(mine.port, mine.world_size, run)
    else:
        side = RollCallClient((mine.address, mine.port), mine.rank, run)
    try:
        gather(side.attempt, mine.world_size, patience)
    except OSError as error:
        if isinstance(error, MissingRanksError):
            raise
        raise LaunchError(f"rank 0 cannot listen on port {mine.port}: {os.strerror(error.errno or 0)}") from error
    finally:
        side.close()


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
