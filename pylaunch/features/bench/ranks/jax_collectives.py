"""Collectives of JAX on the CPUs of all processes, with JAX's own gloo, on arrays whose results are known.

Each process has one part of a global array; a collective is a compiled function over the parts. The contributions are
those of `collectives.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pylaunch.runtime.initialize import in_url

from .collectives import CONTRIBUTIONS, ELEMENT, NotSupportedError, contribution, contributions

AXIS = "ranks"


def connected(mine: Any, _: str, timeout: timedelta) -> JaxCollectives:
    """Connect all ranks, and return their collectives."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        f"{in_url(mine.address)}:{mine.port}", mine.world_size, mine.rank,
        initialization_timeout=int(timeout.total_seconds()),
    )  # fmt: skip
    return JaxCollectives(jax, mine)


class JaxCollectives:
    """Collectives of all ranks."""

    def __init__(self, jax: Any, mine: Any) -> None:
        self.jax, self.numpy = jax, importlib.import_module("numpy")
        self.rank, self.count = mine.rank, mine.world_size
        self.version = f"jax {jax.__version__}"
        self.device_name = "cpu"
        self.is_accelerator = False
        first = {device.process_index: device for device in reversed(jax.devices())}
        self._mesh = jax.sharding.Mesh(self.numpy.array([first[rank] for rank in range(self.count)]), (AXIS,))
        self._parts = jax.sharding.PartitionSpec(AXIS)
        self._split = jax.sharding.NamedSharding(self._mesh, self._parts)

    def prepared(self, operation: str, size: int) -> tuple[Callable[[], None], int]:
        """Return the compiled collective on zeros, and the size of its larger buffer in bytes."""
        function, sent, expected = self._of(operation, size)
        array = self._array(sent * 0)
        function(array).block_until_ready()
        return lambda: function(array).block_until_ready(), max(len(sent), len(expected)) * ELEMENT

    def wrong(self, operation: str, size: int) -> int:
        """Run the collective once and return the number of wrong elements on all ranks."""
        function, sent, expected = self._of(operation, size)
        found = self.numpy.asarray(function(self._array(sent)).addressable_shards[0].data)
        return int(self._gathered([float((found != expected).sum())]).sum())

    def _of(self, operation: str, size: int) -> tuple[Any, Any, Any]:
        """Return the compiled collective, this rank's part, and the right result on this rank."""
        lax, count, mine = self.jax.lax, self.count, contribution(self.rank)
        total = contributions(count)
        length = max(1, size // ELEMENT)
        part = max(1, length // count)
        numbers = self.numpy.arange(count) % CONTRIBUTIONS + 1
        ranks = numbers.astype(self.numpy.float32).repeat(part)
        if operation == "all-reduce":
            return self._compiled(lambda x: lax.psum(x, AXIS)), self._ones(length) * mine, self._ones(length) * total
        if operation == "send-recv":
            around = [(rank, (rank + 1) % count) for rank in range(count)]
            before = contribution((self.rank - 1) % count)
            sent = self._ones(length)
            return self._compiled(lambda x: lax.ppermute(x, AXIS, around)), sent * mine, sent * before
        if operation == "all-gather":
            gather = self._compiled(lambda x: lax.all_gather(x, AXIS, tiled=True))
            return gather, self._ones(part) * mine, self.numpy.tile(self._ones(part), count) * ranks
        if operation == "reduce-scatter":
            scatter = self._compiled(lambda x: lax.psum_scatter(x, AXIS, tiled=True))
            return scatter, self.numpy.tile(self._ones(part), count) * mine, self._ones(part) * total
        if operation == "all-to-all":
            exchange = self._compiled(lambda x: lax.all_to_all(x, AXIS, 0, 0, tiled=True))
            return exchange, ranks * mine, ranks * mine
        raise NotSupportedError(f"JAX has no {operation} on the CPU")

    def _compiled(self, function: Callable[[Any], Any]) -> Any:
        mapped = self.jax.shard_map(
            function, mesh=self._mesh, in_specs=self._parts, out_specs=self._parts, check_vma=False
        )
        return self.jax.jit(mapped)

    def _ones(self, length: int) -> Any:
        """Return 1, 2, 1, 2, …"""
        return (self.numpy.arange(length) % 2 + 1).astype(self.numpy.float32)

    def _array(self, part: Any) -> Any:
        """Return the global array of which `part` is this rank's."""
        return self.jax.make_array_from_process_local_data(self._split, part, (self.count * len(part),))

    def largest(self, values: list[float]) -> list[float]:
        """Return each of `values` on the rank where it is largest."""
        found: list[float] = self._gathered(values).max(axis=0).tolist()
        return found

    def _gathered(self, values: list[float]) -> Any:
        from jax.experimental import multihost_utils

        row = self.numpy.array(values, dtype=self.numpy.float32)
        return multihost_utils.process_allgather(row).reshape(self.count, len(values))

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._gathered([0.0])

    def synchronize(self) -> None:
        """Do nothing: each collective waits for its result."""

    def matrix_product(self, side: int) -> Callable[[], object]:
        """Return a product of two square matrices."""
        left = self.jax.numpy.ones((side, side))
        multiply = self.jax.jit(lambda matrix: matrix @ matrix)
        return lambda: multiply(left).block_until_ready()

    def copy(self, size: int) -> Callable[[], object]:
        """Return a copy of `size` bytes in the memory of the device."""
        source = self.jax.numpy.ones(size // ELEMENT)
        copied = self.jax.jit(lambda array: array + 0)
        return lambda: copied(source).block_until_ready()

    def close(self) -> None:
        """Disconnect all ranks."""
        self.jax.distributed.shutdown()
