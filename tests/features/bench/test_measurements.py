"""Lines of ranks are data: what is malformed, out of bounds or of another rank is dropped and counted."""

import json

import pytest

from pylaunch.features.bench.judgement.measurements import (
    MOST_LINE,
    PREFIX,
    AllReduceTimed,
    BarrierPassed,
    PairTimed,
    Readings,
    bus_bandwidth,
)

ALL_REDUCE = {"kind": "all-reduce", "rank": 0, "size": 4096, "seconds": [0.001, 0.002], "wrong": 0}
PAIR = {"kind": "pair", "rank": 1, "round": 0, "peer": 2, "size": 8, "seconds": [0.1]}


def line(**fields: object) -> str:
    return PREFIX + json.dumps(fields)


def test_a_line_of_each_kind_is_kept() -> None:
    readings = Readings(4)
    assert readings.take(1, line(kind="barrier", rank=1)) == BarrierPassed(rank=1)
    assert isinstance(readings.take(0, line(**ALL_REDUCE)), AllReduceTimed)
    assert isinstance(readings.take(1, line(**PAIR)), PairTimed)
    assert (len(readings.lines), readings.dropped) == (3, 0)
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
        (0, PREFIX + json.dumps({**ALL_REDUCE, "seconds": [0.001] * 5000})),
        (0, PREFIX + " " * MOST_LINE + json.dumps(ALL_REDUCE)),
        (0, line(**{**ALL_REDUCE, "seconds": []})),
        (0, line(**{**ALL_REDUCE, "seconds": [0.0]})),
        (0, line(**{**ALL_REDUCE, "seconds": [-1.0]})),
        (0, line(**{**ALL_REDUCE, "seconds": [5e-324]})),
        (0, line(**{**ALL_REDUCE, "size": -1})),
        (0, line(kind="nothing", rank=0)),
        (1, line(**{**ALL_REDUCE, "rank": 1})),
        (1, line(kind="end", rank=1, stage="all-reduce")),
        (2, line(kind="barrier", rank=1)),
        (None, line(kind="barrier", rank=1)),
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


@pytest.mark.parametrize(("ranks", "rate"), [(2, 1.0), (8, 1.75)])
def test_the_bus_bandwidth_is_that_of_nccl_tests(ranks: int, rate: float) -> None:
    assert bus_bandwidth(10**9, 1.0, ranks) == pytest.approx(rate)
