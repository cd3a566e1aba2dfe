"""Rates between nodes, from the lines of their ranks. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median

from pylaunch.features.bench.judgement.measurements import PairTimed
from pylaunch.features.bench.judgement.operations import algorithm_bandwidth
from pylaunch.features.bench.judgement.pairs import Pair, PairRate


def pair_rates(lines: Iterable[PairTimed], planned: Sequence[Iterable[Pair]], per_node: int) -> list[PairRate]:
    """Return the rates between nodes in `planned` rounds, GB/s in each direction.

    Both ends of a pair must report it: a pair that was not planned, or of which an end is silent or reports twice, is
    dropped. Several ranks of a node measure together, and the slowest pair of ranks counts for all of them.
    """
    expected = [set(pairs) for pairs in planned]
    rates: dict[tuple[int, Pair], dict[Pair, dict[int, list[float]]]] = {}
    for line in lines:
        first, second = sorted((line.rank // per_node, line.peer // per_node))
        if line.rank % per_node != line.peer % per_node:
            continue
        if line.round < len(expected) and (first, second) in expected[line.round]:
            ends = (min(line.rank, line.peer), max(line.rank, line.peer))
            of_ranks = rates.setdefault((line.round, (first, second)), {}).setdefault(ends, {})
            of_ranks.setdefault(line.rank, []).append(algorithm_bandwidth(line.size, median(line.seconds)))
    return [
        PairRate(pair, per_node * min(_mean(ends) for ends in of_ranks.values()))
        for (_, pair), of_ranks in sorted(rates.items())
        if len(of_ranks) == per_node and all(_is_whole(ends) for ends in of_ranks.values())
    ]


def _is_whole(ends: dict[int, list[float]]) -> bool:
    return len(ends) == 2 and all(len(rates) == 1 for rates in ends.values())


def _mean(ends: dict[int, list[float]]) -> float:
    return sum(rate for rates in ends.values() for rate in rates) / 2
