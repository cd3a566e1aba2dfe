#!/usr/bin/env python3
"""Print rounds of pairs beside bisection with collectives of groups, as a Markdown table: simulated clusters.

    .venv/bin/python -m benchmarks.group_bisection [TRIALS]

Both methods get the same planted clusters: slow nodes, or a group of nodes behind a slow path whose numbers are
neighbours ("rack") or drawn at random. A collective of a group is a ring over its nodes, as fast as its slowest link.

Bisection measures both halves of each group at once, level by level. A group is low below 85 % of the fastest one of
its level, and only low groups are split again. If no group of a level is low although their parent was, the path
between the two halves is called slow. A low pair is decided by two further rounds of each node with good partners.
In the variant "to pairs", all groups are split at every level.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from benchmarks.slow_pairs import share_of
from pylaunch.features.bench.judgement.pairs import LOW, Pair
from tests.features.bench.simulated_cluster import SimulatedCluster, planted, simulated

SIZES = (16, 64, 256, 1024)
SHARES = (0.01, 0.05)
RACKS = 8
"""Racks of a cluster, one of which is behind a slow path."""

CONFIRMATIONS = 2

Group = tuple[int, ...]


@dataclass
class Bisected:
    """Result of bisection."""

    rounds: int = 0
    groups: int = 0
    """Process groups that were made."""

    slow: set[int] = field(default_factory=set)
    links: set[Pair] = field(default_factory=set)
    paths: list[tuple[Group, Group]] = field(default_factory=list)


def bisected(cluster: SimulatedCluster, *, to_pairs: bool) -> Bisected:
    """Search `cluster`, whose number of nodes is a power of two."""
    found = Bisected()
    groups: list[Group] = [tuple(range(cluster.nodes))]
    was_low: set[Group] = set()
    while len(groups[0]) > 2:
        halves = [half for group in groups for half in (group[: len(group) // 2], group[len(group) // 2 :])]
        rates = {group: rate_of(cluster, group) for group in halves}
        found.rounds += 1
        found.groups += len(halves)
        fastest = max(rates.values())
        low = {group for group, rate in rates.items() if rate < LOW * fastest}
        for left, right in zip(halves[::2], halves[1::2], strict=True):
            if left + right in was_low and not {left, right} & low:
                found.paths.append((left, right))
        was_low, groups = low, halves if to_pairs else [group for group in halves if group in low]
        if not groups:
            return found
    decide(cluster, [(group[0], group[1]) for group in groups if group in was_low], fastest, found)
    return found


def rate_of(cluster: SimulatedCluster, group: Group) -> float:
    """Return the rate of a ring over `group`."""
    ring = [(min(pair), max(pair)) for pair in zip(group, (*group[1:], group[0]), strict=True)]
    return min(each.rate for each in cluster.measured(sorted(set(ring))))


def decide(cluster: SimulatedCluster, low: list[Pair], fastest: float, found: Bisected) -> None:
    """Measure the nodes of `low` pairs again, each with good ones; `fastest` is the rate of the fastest pair."""
    suspects = {node for pair in low for node in pair}
    good = [node for node in range(cluster.nodes) if node not in suspects]
    if not low or not good:
        return
    found.rounds += CONFIRMATIONS
    for pair in low:
        slow = set()
        for node in pair:
            with_good = [rate_of(cluster, (node, good[(node + turn) % len(good)])) for turn in range(CONFIRMATIONS)]
            if median(with_good) < LOW * fastest:
                slow.add(node)
        found.slow |= slow
        if not slow:
            found.links.add(pair)


@dataclass
class Tally:
    """Sums over the trials of one row."""

    rounds: int = 0
    groups: int = 0
    planted: int = 0
    found: int = 0
    accused: int = 0
    links: int = 0
    paths: int = 0


def far_cluster(nodes: int, seed: int, *, is_rack: bool) -> SimulatedCluster:
    chance = random.Random(seed)
    size = nodes // RACKS
    first = size * chance.randrange(RACKS)
    far = range(first, first + size) if is_rack else chance.sample(range(nodes), size)
    return SimulatedCluster(nodes, chance, far=frozenset(far))


def of_rounds(cluster: SimulatedCluster, seed: int, tally: Tally) -> None:
    score = simulated(cluster, seed)
    tally.rounds = max(tally.rounds, score.rounds)
    tally.planted += score.planted_nodes
    tally.found += score.found_nodes
    tally.accused += score.accused_nodes
    tally.links += score.accused_links
    tally.paths += score.is_path_found if cluster.far else score.is_path_named


def of_bisection(cluster: SimulatedCluster, tally: Tally, *, to_pairs: bool) -> None:
    found = bisected(cluster, to_pairs=to_pairs)
    slow = set(cluster.slow_nodes)
    tally.rounds = max(tally.rounds, found.rounds)
    tally.groups = max(tally.groups, found.groups)
    tally.planted += len(slow)
    tally.found += len(found.slow & slow)
    tally.accused += len(found.slow - slow)
    tally.links += len(found.links)
    right = [path for path in found.paths if cluster.far and cluster.far in map(frozenset, path)]
    tally.paths += bool(right if cluster.far else found.paths)


def rows(nodes: int, what: str, trials: int, made: Callable[[int], SimulatedCluster]) -> None:
    """Print the row of each method, on the clusters that `made` returns for the seeds."""
    tallies = {"rounds of pairs": Tally(), "bisection": Tally(), "bisection to pairs": Tally()}
    for seed in range(trials):
        of_rounds(made(seed), seed, tallies["rounds of pairs"])
        of_bisection(made(seed), tallies["bisection"], to_pairs=False)
        of_bisection(made(seed), tallies["bisection to pairs"], to_pairs=True)
    for method, tally in tallies.items():
        has_path = "path" in what
        cells = (
            str(nodes), what, method, str(tally.rounds), str(tally.groups or "-"),
            share_of(tally.found, tally.planted), str(tally.accused), str(tally.links),
            f"{tally.paths} of {trials}" if has_path else f"{tally.paths} wrongly",
        )  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)


def main(trials: int) -> None:
    print(
        "| nodes | planted | method | rounds | groups | slow nodes found | good accused | links accused | path found |"
    )
    print("|--:|---|---|--:|--:|--:|--:|--:|--:|")
    for nodes in SIZES:
        bad = sorted({max(1, round(nodes * share)) for share in SHARES})
        for count in bad:
            rows(nodes, f"{count} slow", trials, partial(planted, nodes, count, 0))
        rows(nodes, "slow path of a rack", trials, partial(far_cluster, nodes, is_rack=True))
        rows(nodes, "slow path of random nodes", trials, partial(far_cluster, nodes, is_rack=False))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
