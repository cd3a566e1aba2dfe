"""Collectives that are measured, their bandwidths, and the sizes and limits of a sweep. Pure.

Formulae and the meaning of a size are those of nccl-tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the
algorithm bandwidth is size / time; the bus bandwidth multiplies it with a factor, so that the result does not depend on
the number of ranks and can be compared with the speed of the hardware. Rates are decimal: 1 GB/s is 10^9 bytes/s.
"""

from collections.abc import Iterator
from enum import Enum

from pylaunch.base.dataclass import dataclass
from pylaunch.model.text.size import parse_size

GB = 1e9


class Operation(Enum):
    """A collective; the value is its name in flags and output."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    SEND_RECV = "send-recv"


def bus_factor(operation: Operation, ranks: int) -> float:
    """Return bus bandwidth / algorithm bandwidth (PERFORMANCE.md, "Bus bandwidth").

    Each byte of an all-reduce crosses the bottleneck 2(n-1)/n times, of an all-gather, reduce-scatter or all-to-all
    (n-1)/n times, of a broadcast or message once. Raises ValueError for fewer than two ranks.
    """
    if ranks < 2:
        raise ValueError(f"a collective of {ranks} ranks has no bandwidth: expected at least 2")
    if operation is Operation.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if operation in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.ALL_TO_ALL):
        return (ranks - 1) / ranks
    return 1.0


def algorithm_bandwidth(size: int, seconds: float) -> float:
    """Return `size` bytes / `seconds` in GB/s. Raises ValueError for a time that is not positive."""
    if seconds <= 0:
        raise ValueError(f"{seconds!r} s is no duration")
    return size / seconds / GB


def bus_bandwidth(operation: Operation, size: int, seconds: float, ranks: int) -> float:
    """Return the bus bandwidth in GB/s."""
    return algorithm_bandwidth(size, seconds) * bus_factor(operation, ranks)


SMALLEST = 4
"""Bytes of one element."""

LARGEST = 64 << 30
MOST_ITERATIONS = 100_000
MOST_RANKS = 65_024
"""Sums of more ranks are not exact (`ranks/collectives.py`)."""

GROWTH = 4
"""Factor between neighbouring sizes."""

DEFAULT_LARGEST = {"nccl": 1 << 30}
"""Largest size by backend; below 512 MiB, a fabric with NVLink and InfiniBand does not reach its bandwidth."""

USUAL_LARGEST = 64 << 20
TIME_LIMIT_S = 300.0
"""For one run of ranks (`ranks/bench_rank.py`), which omit sizes that would exceed it."""


@dataclass(frozen=True)
class Sweep:
    """Sizes in bytes, and iterations of each."""

    smallest: int = 4 << 10
    largest: int = USUAL_LARGEST
    iterations: int = 20
    """Most timed iterations of one size; large sizes get fewer, so that one takes about half a second."""

    operations: tuple[Operation, ...] = tuple(Operation)

    def sizes(self) -> tuple[int, ...]:
        """Return sizes from the smallest to the largest, each GROWTH times the one before; the last is the largest."""
        return tuple(self._sizes())

    def _sizes(self) -> Iterator[int]:
        size = self.smallest
        while size < self.largest:
            yield size
            size *= GROWTH
        yield self.largest


def checked_sweep(smallest: str | None, largest: str | None, iterations: int | None) -> Sweep:
    """Return a sweep of what flags request; None is the default. Raises ValueError, which names flag and value."""
    plain = Sweep()
    first = plain.smallest if smallest is None else _size("--min-size", smallest)
    last = plain.largest if largest is None else _size("--max-size", largest)
    if smallest is None:
        first = min(first, last)
    if first > last:
        raise ValueError(f"--min-size {smallest} is larger than --max-size {largest or plain.largest}")
    count = plain.iterations if iterations is None else iterations
    if not 1 <= count <= MOST_ITERATIONS:
        raise ValueError(f"--iterations {count}: expected 1 … {MOST_ITERATIONS}")
    return Sweep(first, last, count)


def _size(flag: str, text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"{flag} {text}: expected {SMALLEST} bytes (one element) … {LARGEST >> 30}GiB")
    return size
