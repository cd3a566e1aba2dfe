"""Collectives of torch on buffers whose results are known.

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
"""Different contributions of ranks; all-to-all multiplies two of them."""


def contribution(rank: int) -> int:
    """Return the factor of what `rank` contributes."""
    return rank % CONTRIBUTIONS + 1


def contributions(count: int) -> int:
    """Return the sum over `count` ranks."""
    whole, rest = divmod(count, CONTRIBUTIONS)
    return whole * CONTRIBUTIONS * (CONTRIBUTIONS + 1) // 2 + rest * (rest + 1) // 2


class NotSupportedError(Exception):
    """The backend has no such collective."""


def connected(mine: Any, backend: str, timeout: timedelta) -> Collectives:
    """Connect all ranks, and return their collectives."""
    import torch
    import torch.distributed as dist

    if backend == "nccl" and not torch.cuda.is_available():
        sys.exit("--backend nccl: torch finds no CUDA device here")
    if backend == "mpi" and not dist.is_mpi_available():
        sys.exit(f"--backend mpi: torch {torch.__version__} is built without MPI")
    where = f"tcp://{in_url(mine.address)}:{mine.port}"
    dist.init_process_group(backend, init_method=where, rank=mine.rank, world_size=mine.world_size, timeout=timeout)
    return Collectives(torch, mine, backend)


class Collectives:
    """Collectives of all ranks."""

    def __init__(self, torch: Any, mine: Any, backend: str) -> None:
        self.torch = torch
        self.dist = torch.distributed
        self.rank, self.count = mine.rank, mine.world_size
        is_cuda = backend == "nccl"
        if is_cuda:
            torch.cuda.set_device(mine.local_rank % torch.cuda.device_count())
        # torch 2.13 renamed these two.
        self._all_gather = getattr(self.dist, "all_gather_single", None) or self.dist.all_gather_into_tensor
        self._reduce_scatter = getattr(self.dist, "reduce_scatter_single", None) or self.dist.reduce_scatter_tensor
        self.device = torch.device("cuda", torch.cuda.current_device()) if is_cuda else torch.device("cpu")
        self.is_accelerator = is_cuda
        self.device_name = torch.cuda.get_device_name(self.device) if is_cuda else "cpu"
        self.version = f"torch {torch.__version__}"

    def prepared(self, operation: str, size: int) -> tuple[Callable[[], None], int]:
        """Return the collective on zeros, and the size of its larger buffer in bytes."""
        run, buffers, _ = self._of(operation, size)
        for buffer in buffers:
            buffer.zero_()
        return self._refusing(run), max(buffer.numel() for buffer in buffers) * ELEMENT

    def wrong(self, operation: str, size: int) -> int:
        """Run the collective once and return the number of wrong elements on all ranks."""
        run, buffers, expected = self._of(operation, size)
        run()
        self.synchronize()
        wrong = (buffers[-1] != expected).sum().to(self.torch.float64)
        self.dist.all_reduce(wrong)
        return int(wrong.item())

    def _of(self, operation: str, size: int) -> tuple[Callable[[], None], tuple[Any, ...], Any]:
        """Return collective, its buffers (the result is the last one), and the right result."""
        dist, count, mine = self.dist, self.count, contribution(self.rank)
        total = contributions(count)
        length = max(1, size // ELEMENT)
        part = max(1, length // count)
        if operation == "all-reduce":
            buffer = self._ones(length) * mine
            return lambda: dist.all_reduce(buffer), (buffer,), self._ones(length) * total
        if operation == "broadcast":
            buffer = self._ones(length) * mine
            return lambda: dist.broadcast(buffer, 0), (buffer,), self._ones(length)
        if operation == "send-recv":
            sent, received = self._ones(length) * mine, self._ones(length) * 0
            after, before = (self.rank + 1) % count, (self.rank - 1) % count
            return (
                lambda: self._both(sent, after, received, before),
                (sent, received),
                self._ones(length) * contribution(before),
            )
        numbers = self.torch.arange(count, device=self.device).remainder_(CONTRIBUTIONS).add_(1)
        ranks = numbers.to(self.torch.float32).repeat_interleave(part)
        if operation == "all-gather":
            sent, received = self._ones(part) * mine, self._ones(part * count) * 0
            expected = self._ones(part).repeat(count) * ranks
            return lambda: self._all_gather(received, sent), (sent, received), expected
        if operation == "reduce-scatter":
            sent, received = self._ones(part).repeat(count) * mine, self._ones(part) * 0
            return lambda: self._reduce_scatter(received, sent), (sent, received), self._ones(part) * total
        if operation == "all-to-all":
            sent, received = ranks * mine, self._ones(part * count) * 0
            return lambda: dist.all_to_all_single(received, sent), (sent, received), ranks * mine
        raise NotSupportedError(f"{operation}: no such collective")

    def _ones(self, length: int) -> Any:
        """Return 1, 2, 1, 2, …"""
        return self.torch.arange(length, device=self.device).remainder_(2).add_(1).to(self.torch.float32)

    def _refusing(self, run: Callable[[], None]) -> Callable[[], None]:
        def checked() -> None:
            try:
                run()
            except (RuntimeError, NotImplementedError) as error:
                if "support" not in str(error) and "implement" not in str(error):
                    raise
                raise NotSupportedError(str(error).splitlines()[0]) from error

        return checked

    def exchange(self, peer: int, size: int) -> Callable[[], None]:
        """Return a function that sends `size` bytes to `peer` and receives as many."""
        sent, received = self._ones(size // ELEMENT), self._ones(size // ELEMENT)
        return lambda: self._both(sent, peer, received, peer)

    def round_trip(self, peer: int, size: int) -> Callable[[], None]:
        """Return a function that sends `size` bytes to `peer` and receives them again; the higher rank answers."""
        buffer = self._ones(size // ELEMENT)

        def ask() -> None:
            self.dist.send(buffer, peer)
            self.dist.recv(buffer, peer)

        def answer() -> None:
            self.dist.recv(buffer, peer)
            self.dist.send(buffer, peer)

        return ask if self.rank < peer else answer

    def larger_of_both(self, peer: int, value: float) -> float:
        """Return the larger one of `value` here and at `peer`."""
        mine = self.torch.tensor([value], device=self.device, dtype=self.torch.float64)
        other = self.torch.zeros_like(mine)
        self._both(mine, peer, other, peer)
        return max(value, float(other.item()))

    def _both(self, sent: Any, to: int, received: Any, source: int) -> None:
        p2p = self.dist.P2POp
        orders = [p2p(self.dist.isend, sent, to), p2p(self.dist.irecv, received, source)]
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
        if self.is_accelerator:
            self.torch.cuda.synchronize()

    def close(self) -> None:
        """Disconnect all ranks."""
        self.dist.destroy_process_group()
