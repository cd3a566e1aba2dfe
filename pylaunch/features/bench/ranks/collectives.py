"""All-reduces and exchanges of torch, on buffers whose results are known.

Rank r contributes (r modulo 512 + 1) · (1 or 2) at each even or odd index, so sums are exact in float32 for up to
65,024 ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pylaunch.runtime.initialize import in_url

ELEMENT = 4
"""Bytes of a float32."""

CONTRIBUTIONS = 512
"""Different contributions of ranks."""


def contribution(rank: int) -> int:
    """Return the factor of what `rank` contributes."""
    return rank % CONTRIBUTIONS + 1


def contributions(count: int) -> int:
    """Return the sum over `count` ranks."""
    whole, rest = divmod(count, CONTRIBUTIONS)
    return whole * CONTRIBUTIONS * (CONTRIBUTIONS + 1) // 2 + rest * (rest + 1) // 2


def connected(mine: Any, backend: str, timeout: timedelta) -> Collectives:
    """Connect all ranks, and return their collectives."""
    import torch
    import torch.distributed as dist

    if backend == "nccl" and not torch.cuda.is_available():
        sys.exit("--backend nccl: torch finds no CUDA device here")
    where = f"tcp://{in_url(mine.address)}:{mine.port}"
    dist.init_process_group(backend, init_method=where, rank=mine.rank, world_size=mine.world_size, timeout=timeout)
    return Collectives(torch, mine, backend)


class Collectives:
    """Collectives of all ranks."""

    def __init__(self, torch: Any, mine: Any, backend: str) -> None:
        self.torch = torch
        self.dist = torch.distributed
        self.rank, self.count = mine.rank, mine.world_size
        self.is_cuda = backend == "nccl"
        if self.is_cuda:
            torch.cuda.set_device(mine.local_rank % torch.cuda.device_count())
        self.device = torch.device("cuda", torch.cuda.current_device()) if self.is_cuda else torch.device("cpu")
        self.device_name = torch.cuda.get_device_name(self.device) if self.is_cuda else "cpu"
        self.version = f"torch {torch.__version__}"

    def all_reduce(self, size: int) -> Callable[[], None]:
        """Return a function that sums `size` bytes of zeros over all ranks."""
        buffer = self.torch.zeros(size // ELEMENT, device=self.device)
        return lambda: self.dist.all_reduce(buffer)

    def wrong(self, size: int) -> int:
        """Sum known values over all ranks once and return the number of wrong elements on all ranks."""
        ones = self._ones(size // ELEMENT)
        buffer = ones * contribution(self.rank)
        self.dist.all_reduce(buffer)
        self.synchronize()
        wrong = (buffer != ones * contributions(self.count)).sum().to(self.torch.float64)
        self.dist.all_reduce(wrong)
        return int(wrong.item())

    def _ones(self, length: int) -> Any:
        """Return 1, 2, 1, 2, …"""
        return self.torch.arange(length, device=self.device).remainder_(2).add_(1).to(self.torch.float32)

    def exchange(self, peer: int, size: int) -> Callable[[], None]:
        """Return a function that sends `size` bytes to `peer` and receives as many."""
        sent, received = self._ones(size // ELEMENT), self._ones(size // ELEMENT)
        return lambda: self._both(sent, received, peer)

    def larger_of_both(self, peer: int, value: float) -> float:
        """Return the larger one of `value` here and at `peer`."""
        mine = self.torch.tensor([value], device=self.device, dtype=self.torch.float64)
        other = self.torch.zeros_like(mine)
        self._both(mine, other, peer)
        return max(value, float(other.item()))

    def _both(self, sent: Any, received: Any, peer: int) -> None:
        p2p = self.dist.P2POp
        orders = [p2p(self.dist.isend, sent, peer), p2p(self.dist.irecv, received, peer)]
        for order in self.dist.batch_isend_irecv(orders):
            order.wait()

    def largest(self, values: list[float]) -> list[float]:
        """Return each of `values` on the rank where it is largest."""
        found = self.torch.tensor(values, device=self.device, dtype=self.torch.float64)
        self.dist.all_reduce(found, op=self.dist.ReduceOp.MAX)
        largest: list[float] = found.tolist()
        return largest

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.dist.barrier()

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        if self.is_cuda:
            self.torch.cuda.synchronize()

    def close(self) -> None:
        """Disconnect all ranks."""
        self.dist.destroy_process_group()
