"""Slow nodes and links are named, victims of slow nodes are not, and without a majority nobody is."""

import random

import pytest

from pylaunch.features.bench.judgement.confirmation import PairVerdict, confirmations, pair_verdict
from pylaunch.features.bench.judgement.measurements import PairTimed
from pylaunch.features.bench.judgement.pairs import PairRate, pair_rates, round_numbers, screened
from pylaunch.features.bench.ranks.rounds import pairs_of, partner
from tests.features.bench.simulated_cluster import SimulatedCluster, planted, simulated

NOISE = 0.01


def verdict_on(cluster: SimulatedCluster, seed: int = 0) -> PairVerdict:
    rates = [
        rate
        for number in round_numbers(cluster.nodes, seed)
        for rate in cluster.measured(pairs_of(number, cluster.nodes))
    ]
    screening = screened(rates, cluster.nodes)
    again = [rate for pairs in confirmations(screening) for rate in cluster.measured(pairs)]
    return pair_verdict(screening, again)


@pytest.mark.parametrize("nodes", [3, 4, 5, 8, 13, 16, 100])
def test_one_slow_node_is_named_and_its_partners_are_not(nodes: int) -> None:
    for slow in range(min(nodes, 16)):
        found = verdict_on(SimulatedCluster(nodes, random.Random(slow), {slow: 0.5}, noise=NOISE, dips=0.0))
        assert [each.node for each in found.nodes] == [slow]
        assert found.nodes[0].share == pytest.approx(0.5, abs=0.03)
        assert found.links == ()


@pytest.mark.parametrize("nodes", [5, 8, 16, 33])
def test_a_slow_link_is_named_without_its_nodes(nodes: int) -> None:
    link = pairs_of(round_numbers(nodes, 0)[0], nodes)[0]
    found = verdict_on(SimulatedCluster(nodes, random.Random(1), slow_links={link: 0.4}, noise=NOISE, dips=0.0))
    assert found.nodes == ()
    assert [each.pair for each in found.links] == [link]


@pytest.mark.parametrize("nodes", [3, 4, 8, 16, 64])
def test_a_healthy_cluster_accuses_nobody(nodes: int) -> None:
    for seed in range(20):
        found = verdict_on(SimulatedCluster(nodes, random.Random(seed)), seed)
        assert (found.nodes, found.links) == ((), ())


def test_a_node_whose_partners_were_all_slow_is_cleared_by_good_ones() -> None:
    nodes, seed = 16, 3
    partners = {
        pair[0] + pair[1] - 5 for number in round_numbers(nodes, seed) for pair in pairs_of(number, nodes) if 5 in pair
    }
    found = verdict_on(
        SimulatedCluster(nodes, random.Random(0), dict.fromkeys(partners, 0.5), noise=NOISE, dips=0.0), seed
    )
    assert 5 in found.cleared
    assert {each.node for each in found.nodes} == partners


def test_two_nodes_have_no_peer_and_half_of_the_nodes_are_no_minority() -> None:
    assert "fewer than 3" in verdict_on(SimulatedCluster(2, random.Random(0), {1: 0.5})).abstained
    half = verdict_on(SimulatedCluster(8, random.Random(0), dict.fromkeys(range(3), 0.5), noise=NOISE, dips=0.0))
    assert "no majority" in half.abstained
    assert half.nodes == ()


@pytest.mark.parametrize("nodes", [16, 64])
def test_a_network_that_is_in_use_is_not_called_normal(nodes: int) -> None:
    for seed in range(20):
        found = verdict_on(SimulatedCluster(nodes, random.Random(seed), noise=0.4), seed)
        assert (found.nodes, found.links) == ((), ())
        assert "in use" in found.abstained or found.unclear


@pytest.mark.parametrize(("nodes", "noise", "most"), [(3, 0.3, 1), (4, 0.3, 1), (16, 0.3, 1), (16, 0.15, 1)])
def test_noise_accuses_a_good_node_in_one_of_a_thousand_verdicts_at_most(nodes: int, noise: float, most: int) -> None:
    clusters = [SimulatedCluster(nodes, random.Random(seed), noise=noise, dips=0.02) for seed in range(1000)]
    accused = [found for seed, each in enumerate(clusters) if (found := verdict_on(each, seed)).nodes or found.links]
    assert len(accused) <= most


def test_a_far_slower_node_is_named_in_a_noisy_network() -> None:
    found = [verdict_on(SimulatedCluster(16, random.Random(seed), {5: 0.1}, noise=0.3), seed) for seed in range(20)]
    assert {node.node for each in found for node in each.nodes} == {5}
    assert sum(bool(each.nodes) for each in found) >= 19


@pytest.mark.parametrize("behind", [2, 3, 4])
def test_nodes_behind_a_slow_path_are_not_called_slow(behind: int) -> None:
    for seed in range(40):
        far = frozenset(range(16 - behind, 16))
        found = verdict_on(SimulatedCluster(16, random.Random(seed), far=far, noise=NOISE, dips=0.0), seed)
        assert found.nodes == ()
        assert set(found.apart) <= far
        assert all(len(far & set(link.pair)) == 1 for link in found.links)


def test_few_and_many_suspects_meet_each_other_twice_in_the_rounds_of_the_confirmation() -> None:
    for nodes, slow, meetings in ((64, 2, 2), (256, 8, 1), (64, 8, 2)):
        cluster = SimulatedCluster(nodes, random.Random(3), dict.fromkeys(range(slow), 0.5), noise=0.0, dips=0.0)
        rates = [rate for number in round_numbers(nodes, 3) for rate in cluster.measured(pairs_of(number, nodes))]
        screening = screened(rates, nodes)
        kin = set(screening.kin)
        assert set(range(slow)) <= kin
        again = [pair for pairs in confirmations(screening) for pair in pairs if set(pair) <= kin]
        met = {node: sum(node in pair for pair in again) for node in range(slow)}
        assert set(met.values()) == {meetings}


def test_a_suspect_without_a_good_partner_is_unclear() -> None:
    rates = [PairRate((0, 1), 5.0), PairRate((0, 2), 5.0), PairRate((0, 3), 5.0)]
    rates += [PairRate((1, 2), 10.0), PairRate((1, 3), 10.0), PairRate((2, 3), 10.0)]
    screening = screened(rates, 4)
    assert screening.suspects == (0,)
    found = pair_verdict(screening, [])
    assert found.unclear == (0,)
    assert found.nodes == ()


def test_suspects_meet_different_good_nodes_at_the_same_time() -> None:
    cluster = planted(64, 5, 0, seed=2)
    rates = [rate for number in round_numbers(64, 2) for rate in cluster.measured(pairs_of(number, 64))]
    screening = screened(rates, 64)
    rounds = confirmations(screening)
    assert len(rounds) >= 2
    for pairs in rounds:
        met = [node for pair in pairs for node in pair]
        assert len(met) == len(set(met))
        assert set(screening.suspects) <= set(met)
    assert not set(rounds[0]) & {pair for pair in rounds[1] if set(pair) & set(screening.suspects)}


def test_a_thousand_nodes_of_which_one_in_a_hundred_is_slow() -> None:
    scores = [simulated(planted(1024, 10, 0, seed), seed) for seed in range(3)]
    assert all(each.found_nodes == each.planted_nodes and each.accused_nodes == 0 for each in scores)
    assert all(each.rounds <= 12 for each in scores)


def test_a_node_with_a_slow_partner_and_a_slow_link_is_not_accused() -> None:
    """Three rounds, of which two are low: its median is low, and only new partners show that the node is normal."""
    for seed in range(40):
        numbers = round_numbers(8, seed)
        slow, other = (partner(5, number, 8) for number in numbers[:2])
        assert slow is not None
        assert other is not None
        link = (min(5, other), max(5, other))
        cluster = SimulatedCluster(8, random.Random(seed), {slow: 0.5}, {link: 0.5}, noise=NOISE, dips=0.0)
        assert {each.node for each in verdict_on(cluster, seed).nodes} <= {slow}


MB = 1_000_000


def timed(rank: int, peer: int, seconds: float, number: int = 0) -> PairTimed:
    return PairTimed(rank=rank, round=number, peer=peer, size=MB, seconds=(seconds,))


@pytest.mark.parametrize(
    "lines",
    [
        [timed(0, 1, 0.001)],
        [timed(0, 1, 0.001), timed(0, 1, 0.001)],
        [timed(0, 1, 0.001), timed(1, 0, 0.001), timed(0, 1, 9.0)],
        [timed(0, 2, 0.001), timed(2, 0, 0.001)],
        [timed(0, 1, 0.001, number=1), timed(1, 0, 0.001, number=1)],
    ],
    ids=["one end", "one end twice", "a second claim", "another pair", "another round"],
)
def test_what_was_not_planned_or_is_not_confirmed_by_the_other_end_is_dropped(lines: list[PairTimed]) -> None:
    assert pair_rates(lines, [[(0, 1)], []], 1) == []


def test_the_slowest_pair_of_ranks_counts_for_the_node() -> None:
    lines = [timed(0, 2, 0.001), timed(2, 0, 0.001), timed(1, 3, 0.004), timed(3, 1, 0.004)]
    (found,) = pair_rates(lines, [[(0, 1)]], 2)
    assert found.rate == pytest.approx(2 * 0.25)
    assert pair_rates(lines[:2], [[(0, 1)]], 2) == []
    assert pair_rates([timed(0, 3, 0.001), timed(3, 0, 0.001)], [[(0, 1)]], 2) == []
