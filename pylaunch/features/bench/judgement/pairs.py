"""Rates between nodes, and suspects among nodes and links, from rounds of disjoint pairs. Pure.

    round_numbers   ⌈log2 n⌉ rounds of all nodes in disjoint pairs, with different partners each
    pair_rates      rates between nodes, from the lines of their ranks
    screened        scores of nodes relative to the median; suspects, and nodes that are known good

`confirmation` measures suspects again and gives the verdict: a good node that met bad partners has low rounds, too.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from statistics import median, median_high

from pylaunch.base.dataclass import dataclass
from pylaunch.features.bench.judgement.measurements import PairTimed, bandwidth
from pylaunch.features.bench.ranks.rounds import round_count

LOW = 0.85
"""Share of the reference below which a node is a suspect: the symmetry that operators expect of healthy pairs."""

FAR = 0.5
"""The same where too many nodes are below LOW: in a noisy network, only a node that is far slower is a suspect."""

NOISE_FACTOR = 4.0
"""A link is a suspect if it is also below the reference by so many standard deviations of healthy pairs."""

MOST_NOISE = 0.2
"""Standard deviation of healthy pairs, relative, above which nodes without a verdict are not called normal."""

MOST_SUSPECTS = 1 / 3
"""Share of nodes above which there is no majority to compare with."""

FEWEST_ROUNDS = 3
"""At least, where so many rounds exist: of 3 or 4 nodes, one bad node slows half of the pairs of each round."""

Pair = tuple[int, int]
"""Two nodes, the lower one first."""


@dataclass(frozen=True)
class PairRate:
    """Rate between two nodes in one round, in GB/s in each direction."""

    pair: Pair
    rate: float


@dataclass(frozen=True)
class Screening:
    """Result of the first rounds."""

    nodes: int
    link_threshold: float
    """Share of the reference, the median of the nodes' medians, below which a link is low."""

    scores: Mapping[int, float]
    """Node → median of its rounds relative to the reference."""

    suspects: tuple[int, ...]
    """The lowest score first."""

    links: tuple[Pair, ...]
    """Pairs that were low between nodes that are normal; the lowest first."""

    good: tuple[int, ...]
    """Nodes whose rounds were all normal, except those with suspects; the highest score first."""

    doubtful: tuple[int, ...] = ()
    """Nodes that are no suspects and were low with two others: they may share a slow path with suspects."""

    rates: tuple[PairRate, ...] = ()
    noise: float = 0.0
    """Standard deviation of pairs without suspects, relative."""

    abstained: str = ""
    """Reason why nothing can be judged; "" if it can."""

    @property
    def kin(self) -> tuple[int, ...]:
        """Return the nodes that may share a slow path: suspects, then the doubtful ones."""
        return (*self.suspects, *self.doubtful)


def other_of(pair: Pair, node: int) -> int:
    """Return the node of `pair` that `node` met."""
    return pair[1] if pair[0] == node else pair[0]


def round_numbers(nodes: int, seed: int) -> tuple[int, ...]:
    """Return numbers of ⌈log2 n⌉ rounds (`rounds.pairs_of`), drawn by `seed`; all rounds of up to 4 nodes."""
    wanted = max(FEWEST_ROUNDS, (nodes - 1).bit_length())
    every = round_count(nodes)
    return tuple(random.Random(seed).sample(range(every), min(wanted, every)))


def screened(rates: Iterable[PairRate], nodes: int) -> Screening:
    """Return the suspects among `nodes`; a node without any rate has no score and is not judged."""
    found = tuple(rates)
    of_node: dict[int, list[float]] = {}
    for each in found:
        for node in each.pair:
            of_node.setdefault(node, []).append(each.rate)
    if len(of_node) < 3:
        return _abstaining(nodes, "fewer than 3 nodes were measured: a pair has no peer to compare with")
    levels = {node: median_high(values) for node, values in of_node.items()}
    reference = median(levels.values())
    if reference <= 0:
        return _abstaining(nodes, "no data was transferred")
    scores = {node: level / reference for node, level in levels.items()}
    fast = sorted(scores.values())[min(len(scores) * 3 // 4, len(scores) - 2)]  # Never that of the fastest alone.
    below = {level: sum(score < level * fast for score in scores.values()) for level in (LOW, FAR)}
    level = next((level for level in below if below[level] <= len(scores) * MOST_SUSPECTS), 0.0)
    ranked = sorted(scores, key=lambda node: (scores[node], node))
    suspects = tuple(node for node in ranked if scores[node] < level)
    if level < LOW and not suspects:
        return _abstaining(
            nodes,
            f"{below[LOW]} of {len(scores)} nodes are below the others: there is no majority to compare with, "
            "or the network is in use",
        )
    others = [each for each in found if not set(each.pair) & set(suspects)]
    noise = noise_of([each.rate / reference for each in others])
    threshold = min(LOW, 1 - NOISE_FACTOR * noise)
    low = sorted((each.rate, each.pair) for each in others if each.rate < threshold * reference)
    at_links = {node for _, pair in low for node in pair}
    is_normal = {node: score >= (1 + threshold) / 2 for node, score in scores.items()}
    links = tuple(dict.fromkeys(pair for _, pair in low if is_normal[pair[0]] and is_normal[pair[1]]))
    good = tuple(node for node in reversed(ranked) if node not in suspects and node not in at_links)
    doubtful = tuple(node for node in ranked if sum(node in pair for _, pair in low) > 1)
    return Screening(nodes, threshold, scores, suspects, links, good, doubtful, found, noise)


def _abstaining(nodes: int, reason: str) -> Screening:
    return Screening(nodes, 0.0, {}, (), (), (), abstained=reason)


def noise_of(shares: list[float]) -> float:
    """Return the standard deviation of `shares`, estimated from their median absolute deviation."""
    if not shares:
        return 0.0
    middle = median(shares)
    return 1.4826 * median(abs(share - middle) for share in shares)


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
            of_ranks.setdefault(line.rank, []).append(bandwidth(line.size, median(line.seconds)))
    return [
        PairRate(pair, per_node * min(_mean(ends) for ends in of_ranks.values()))
        for (_, pair), of_ranks in sorted(rates.items())
        if len(of_ranks) == per_node and all(_is_whole(ends) for ends in of_ranks.values())
    ]


def _is_whole(ends: dict[int, list[float]]) -> bool:
    return len(ends) == 2 and all(len(rates) == 1 for rates in ends.values())


def _mean(ends: dict[int, list[float]]) -> float:
    return sum(rate for rates in ends.values() for rate in rates) / 2
