"""Lines of ranks are data: what is malformed, out of bounds or of another rank is dropped and counted."""

import json

import pytest

from pylaunch.features.bench.judgement.measurements import (
    MOST_LINE,
    PREFIX,
    BarrierPassed,
    CollectiveTimed,
    PairTimed,
    Readings,
)
from pylaunch.features.bench.judgement.sweep import Operation, bus_factor

COLLECTIVE = {
    "kind": "collective", "rank": 0, "operation": "all-reduce", "size": 4096, "seconds": [0.001, 0.002], "wrong": 0,
    "iterations": 20,
}  # fmt: skip
PAIR = {"kind": "pair", "rank": 1, "round": 0, "peer": 2, "size": 8, "seconds": [0.1]}

LATENCY = {"kind": "latency", "rank": 0, "of": "all-reduce", "size": 4, "seconds": [0.001]}


def line(**fields: object) -> str:
    return PREFIX + json.dumps(fields)


def test_a_line_of_each_kind_is_kept() -> None:
    readings = Readings(4)
    assert readings.take(1, line(kind="barrier", rank=1)) == BarrierPassed(rank=1)
    found = readings.take(0, line(**COLLECTIVE))
    assert isinstance(found, CollectiveTimed)
    assert found.operation is Operation.ALL_REDUCE
    assert isinstance(readings.take(1, line(**PAIR)), PairTimed)
    assert readings.take(0, line(**LATENCY)) is not None
    assert readings.take(1, line(**{**LATENCY, "rank": 1, "of": "round trip", "peer": 2})) is not None
    assert (len(readings.lines), readings.dropped) == (5, 0)
    assert [each.rank for each in readings.of(PairTimed)] == [1]


def test_output_of_libraries_is_no_measurement() -> None:
    readings = Readings(4)
    assert readings.take(0, "UserWarning: something") is None
    assert readings.dropped == 0


@pytest.mark.parametrize(
    ("rank", "text"),
    [
        (0, PREFIX + "{"),
        (0, PREFIX + "[]"),
        (0, PREFIX + json.dumps({**COLLECTIVE, "seconds": [0.001] * 5000})),
        (0, PREFIX + " " * MOST_LINE + json.dumps(COLLECTIVE)),
        (0, line(**{**COLLECTIVE, "seconds": []})),
        (0, line(**{**COLLECTIVE, "seconds": [0.0]})),
        (0, line(**{**COLLECTIVE, "seconds": [-1.0]})),
        (0, line(**{**COLLECTIVE, "seconds": [5e-324]})),
        (0, line(**{**COLLECTIVE, "size": -1})),
        (0, line(**{**COLLECTIVE, "operation": "rm -rf"})),
        (0, line(kind="nothing", rank=0)),
        (1, line(**{**COLLECTIVE, "rank": 1})),
        (1, line(kind="end", rank=1, stage="sweep")),
        (2, line(kind="barrier", rank=1)),
        (None, line(kind="barrier", rank=1)),
        (1, line(**{**LATENCY, "rank": 1})),
        (0, line(**{**LATENCY, "of": "round trip"})),
        (0, line(**{**LATENCY, "peer": 1})),
        (2, line(**{**LATENCY, "rank": 2, "of": "round trip", "peer": 1})),
        (1, line(**{**LATENCY, "rank": 1, "of": "round trip", "peer": 4})),
        (1, line(**{**PAIR, "peer": 1})),
        (1, line(**{**PAIR, "peer": 4})),
        (1, line(**{**PAIR, "seconds": [float("inf")]})),
    ],
)
def test_everything_else_is_dropped_and_counted(rank: int | None, text: str) -> None:
    readings = Readings(4)
    assert readings.take(rank, text) is None
    assert (readings.lines, readings.dropped) == ([], 1)


def test_a_rank_that_writes_without_end_spoils_its_own_numbers_only() -> None:
    readings = Readings(4, most=1)
    assert readings.take(1, line(kind="barrier", rank=1)) is not None
    assert readings.take(1, line(kind="barrier", rank=1)) is None
    assert readings.take(2, line(kind="barrier", rank=2)) is not None
    assert ([each.rank for each in readings.lines], readings.dropped) == ([1, 2], 1)


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
