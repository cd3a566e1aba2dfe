"""Bandwidths are those of nccl-tests: the factors of its PERFORMANCE.md."""

from __future__ import annotations

import pytest

from pylaunch.features.bench.judgement.operations import (
    Operation,
    algorithm_bandwidth,
    bus_bandwidth,
    bus_factor,
)


@pytest.mark.parametrize(
    ("operation", "ranks", "factor"),
    [
        (Operation.ALL_REDUCE, 2, 1.0),
        (Operation.ALL_REDUCE, 8, 1.75),
        (Operation.ALL_GATHER, 8, 0.875),
        (Operation.REDUCE_SCATTER, 8, 0.875),
        (Operation.ALL_TO_ALL, 4, 0.75),
        (Operation.BROADCAST, 8, 1.0),
        (Operation.SEND_RECV, 8, 1.0),
    ],
)
def test_factors(operation: Operation, ranks: int, factor: float) -> None:
    assert bus_factor(operation, ranks) == pytest.approx(factor)


def test_a_bandwidth_counts_bytes_in_powers_of_ten() -> None:
    """128 MiB in 1014.8 us on 8 ranks."""
    assert algorithm_bandwidth(134217728, 1014.8e-6) == pytest.approx(132.26, rel=1e-4)
    assert bus_bandwidth(Operation.ALL_REDUCE, 134217728, 1014.8e-6, 8) == pytest.approx(231.45, rel=1e-4)


def test_one_rank_and_no_time_have_no_bandwidth() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        bus_factor(Operation.ALL_REDUCE, 1)
    with pytest.raises(ValueError, match="no duration"):
        algorithm_bandwidth(4, 0.0)
