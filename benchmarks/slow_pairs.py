#!/usr/bin/env python3
"""Print the cost and accuracy of pair rounds as Markdown tables: simulated clusters with planted slow nodes and links.

    .venv/bin/python -m benchmarks.slow_pairs [TRIALS]

The second table has clusters without any slow node, in which rates differ.
"""

from __future__ import annotations

import math
import random
import sys

from tests.features.bench.simulated_cluster import SimulatedCluster, SimulatedScore, planted, simulated

SIZES = tuple(2**power for power in range(1, 13))


NOISES = (0.05, 0.1, 0.2, 0.3, 0.4)
NOISY_SIZES = (3, 4, 8, 16, 64)
NOISY_FACTOR = 30
"""Trials of noisy clusters for each trial of the first table: accusations are rare there."""


def main(trials: int) -> None:
    found(trials)
    print()
    noisy(trials * NOISY_FACTOR)


def found(trials: int) -> None:
    print("| nodes | slow nodes | rounds | found | unclear | good accused | slow links | found | accused | abstained |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for nodes in SIZES:
        for share in (0.01, 0.05):
            bad = max(1, round(nodes * share))
            if share > 0.01 and bad == 1:
                continue
            scores = [trial(nodes, bad, seed) for seed in range(trials)]
            print(row(nodes, bad, scores))


def noisy(trials: int) -> None:
    print("| nodes | noise | verdicts | that accuse a node or link | that say nothing | with unclear nodes |")
    print("|--:|--:|--:|--:|--:|--:|")
    for nodes in NOISY_SIZES:
        for noise in NOISES:
            scores = [simulated(healthy(nodes, noise, seed), seed) for seed in range(trials)]
            accused = sum(bool(each.accused_nodes or each.accused_links) for each in scores)
            silent, unclear = sum(each.abstained for each in scores), sum(bool(each.unclear) for each in scores)
            print(f"| {nodes} | {noise:.0%} | {trials} | {accused} | {silent} | {unclear} |")


def healthy(nodes: int, noise: float, seed: int) -> SimulatedCluster:
    return SimulatedCluster(nodes, random.Random(seed), noise=noise, dips=0.02)


def trial(nodes: int, bad: int, seed: int) -> SimulatedScore:
    return simulated(planted(nodes, bad, bad if nodes >= 8 else 0, seed), seed)


def row(nodes: int, bad: int, scores: list[SimulatedScore]) -> str:
    good = (nodes - bad) * len(scores)
    cells = (
        str(nodes),
        str(bad),
        str(max(each.rounds for each in scores)),
        share_of(sum(each.found_nodes for each in scores), sum(each.planted_nodes for each in scores)),
        str(sum(each.unclear for each in scores)),
        f"{sum(each.accused_nodes for each in scores)} of {good}",
        str(sum(each.measured_links for each in scores)),
        share_of(sum(each.found_links for each in scores), sum(each.measured_links for each in scores)),
        str(sum(each.accused_links for each in scores)),
        str(sum(each.abstained for each in scores)),
    )
    return f"| {' | '.join(cells)} |"


def share_of(found: int, of: int) -> str:
    return "-" if not of else f"{math.floor(1000 * found / of) / 10:g} %"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
