"""Simulated cluster with planted slow nodes and links, for the cost and accuracy of pair rounds. Pure."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from pylaunch.features.bench.judgement.confirmation import confirmations, pair_verdict
from pylaunch.features.bench.judgement.pairs import Pair, PairRate, round_numbers, screened
from pylaunch.features.bench.ranks.rounds import pairs_of

RATE = 10.0
FAR_SHARE = 0.5


@dataclass
class SimulatedCluster:
    """Nodes of which some are slow. A pair is as fast as its slowest part, with noise."""

    nodes: int
    chance: random.Random
    slow_nodes: dict[int, float] = field(default_factory=dict)
    """Node → share of the normal rate."""

    slow_links: dict[Pair, float] = field(default_factory=dict)
    far: frozenset[int] = frozenset()
    """Nodes behind a slow path: at FAR_SHARE with the others, normal among themselves."""

    noise: float = 0.03
    """Standard deviation, relative."""

    dips: float = 0.005
    """Probability that another load halves one measurement."""

    def measured(self, pairs: Iterable[Pair]) -> list[PairRate]:
        """Return rates of one round."""
        return [PairRate(pair, RATE * self._share(pair)) for pair in pairs]

    def _share(self, pair: Pair) -> float:
        share = min(*(self.slow_nodes.get(node, 1.0) for node in pair), self.slow_links.get(pair, 1.0))
        if len(self.far & set(pair)) == 1:
            share = min(share, FAR_SHARE)
        if self.chance.random() < self.dips:
            share *= 0.5
        return share * max(0.1, self.chance.gauss(1.0, self.noise))


@dataclass(frozen=True)
class SimulatedScore:
    """Verdict on a simulated cluster, compared with what was planted."""

    rounds: int
    planted_nodes: int
    found_nodes: int
    accused_nodes: int
    """Good nodes that were called slow."""


def planted(nodes: int, bad: int, links: int, seed: int) -> SimulatedCluster:
    """Return a cluster with `bad` slow nodes and `links` slow links, at 30 to 80 % of the normal rate.

    Links are planted among the pairs that the rounds for `seed` contain: others are not measured.
    """
    chance = random.Random(seed)
    slow = {node: chance.uniform(0.3, 0.8) for node in chance.sample(range(nodes), bad)}
    pairs = [pair for number in round_numbers(nodes, seed) for pair in pairs_of(number, nodes)]
    chosen = {pair: chance.uniform(0.3, 0.8) for pair in chance.sample(pairs, min(links, len(pairs)))}
    return SimulatedCluster(nodes, chance, slow, chosen)


def simulated(cluster: SimulatedCluster, seed: int) -> SimulatedScore:
    """Measure `cluster` in the rounds for `seed`, judge it, and return the score."""
    rates: list[PairRate] = []
    numbers = round_numbers(cluster.nodes, seed)
    for number in numbers:
        rates += cluster.measured(pairs_of(number, cluster.nodes))
    screening = screened(rates, cluster.nodes)
    rounds = confirmations(screening)
    again = [rate for pairs in rounds for rate in cluster.measured(pairs)]
    verdict = pair_verdict(screening, again)
    accused = {each.node for each in verdict.nodes}
    bad = set(cluster.slow_nodes)
    return SimulatedScore(len(numbers) + len(rounds), len(bad), len(accused & bad), len(accused - bad))
