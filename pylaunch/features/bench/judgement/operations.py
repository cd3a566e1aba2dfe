"""Collectives that are measured, and their bandwidths. Pure.

Formulae and the meaning of a size are those of nccl-tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the
algorithm bandwidth is size / time; the bus bandwidth multiplies it with a factor, so that the result does not depend on
the number of ranks and can be compared with the speed of the hardware. Rates are decimal: 1 GB/s is 10^9 bytes/s.
"""

from enum import Enum

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
