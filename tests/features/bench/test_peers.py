"""A device is called slow only if later measurements confirm it, and other processes and chance do not explain it."""

import random

import pytest

from pylaunch.features.bench.judgement.peers import Measured, PeerRate, peer_verdict, repeats, suspects


def measured(*rates: float, waited: dict[int, float] | None = None) -> Measured:
    """One measurement of n1, n2, …"""
    taken = waited or {}
    return {f"n{place}": PeerRate(rate, taken.get(place, 0.0)) for place, rate in enumerate(rates, 1)}


def verdict(first: Measured, *later: Measured) -> dict[str, bool]:
    """Suspects, and whether they are confirmed."""
    return {each.name: each.is_confirmed for each in peer_verdict(first, later)}


@pytest.mark.parametrize(
    "rates",
    [(100.0, 10.0), (100.0, 90.0, 95.0), (100.0, 100.0, 100.0, 50.0, 50.0), (0.0, 0.0, 0.0)],
)
def test_without_peers_or_majority_nobody_is_a_suspect(rates: tuple[float, ...]) -> None:
    assert suspects(measured(*rates)) == ()
    assert repeats(measured(*rates)) == 0


def test_one_measurement_accuses_nobody() -> None:
    (found,) = peer_verdict(measured(100.0, 70.0, 98.0, 101.0), ())
    assert (found.name, found.again, found.is_confirmed) == ("n2", (), False)
    assert found.share == pytest.approx(0.71, abs=0.01)


@pytest.mark.parametrize("count", [3, 4, 8, 64])
def test_a_device_that_stays_slow_is_confirmed_with_the_measurements_that_repeats_names(count: int) -> None:
    rates = [70.0, *(100.0 + place % 3 for place in range(count - 1))]
    first = measured(*rates)
    again = repeats(first)
    assert verdict(first, *[first] * again) == {"n1": True}
    assert verdict(first, *[first] * max(0, again - 2)) == {"n1": False}
    assert repeats(measured(70.0, 100.0, 100.0)) == 7


def test_a_device_that_was_slow_once_is_not_confirmed() -> None:
    """Two nodes of a busy machine, both healthy."""
    normal = measured(100.0, 98.0, 99.0)
    assert verdict(measured(82.0, 100.0, 100.0), *[normal] * 7) == {"n1": False}
    assert verdict(measured(100.0, 99.0, 73.0), *[normal] * 7) == {"n3": False}
    assert verdict(measured(100.0, 99.0, 73.0), *[measured(100.0, 99.0, 73.0)] * 3, *[normal] * 4) == {"n3": False}


def test_a_device_is_not_slow_while_other_processes_have_its_processors() -> None:
    busy = measured(100.0, 99.0, 73.0, waited={3: 0.26})
    (found,) = peer_verdict(busy, [busy] * 7)
    assert not found.is_confirmed
    assert found.waited == pytest.approx(0.26)
    slow = measured(100.0, 99.0, 50.0, waited={3: 0.26})
    assert verdict(slow, *[slow] * 7) == {"n3": True}
    everywhere = measured(100.0, 99.0, 73.0, waited={1: 0.3, 2: 0.3, 3: 0.3})
    assert verdict(everywhere, *[everywhere] * 7) == {"n3": True}


def test_load_that_comes_and_goes_accuses_a_healthy_device_in_one_of_a_thousand_verdicts_at_most() -> None:
    """In each measurement, each node has a quarter of its rate less with probability 0.3."""
    accused = 0
    for seed in range(1000):
        draw = random.Random(seed)

        def one(draw: random.Random = draw) -> Measured:
            return measured(*(draw.gauss(100, 3) * (0.75 if draw.random() < 0.3 else 1.0) for _ in range(3)))

        first = one()
        accused += any(verdict(first, *(one() for _ in range(repeats(first)))).values())
    assert accused <= 1
