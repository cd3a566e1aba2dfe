"""Devices and file systems that are slow relative to their peers. Pure.

    suspects          peers that are slow in one measurement
    repeats           further measurements that exclude chance
    peer_verdict      suspects with what the further measurements say

One measurement accuses nobody: on a host with other work, a healthy device is slow for a while. A suspect is confirmed
if it is slow in the later measurements, too, if chance does not explain it, and if it is also slow in the time in which
its threads had a processor.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import comb
from statistics import median

from pylaunch.base.dataclass import dataclass

LOW = 0.85
FEWEST = 3
"""Of one kind, with which one of them can be compared."""


@dataclass(frozen=True)
class PeerRate:
    """Speed of one peer in one measurement."""

    rate: float
    waited: float = 0.0
    """Share of the time in which a thread was ready and other processes had its processor; 0 if that is unknown."""

    @property
    def alone(self) -> float:
        """Return the rate without the time of other processes."""
        return self.rate / (1 - self.waited)


Measured = Mapping[str, PeerRate]
"""One measurement of all peers: name → rate."""


@dataclass(frozen=True)
class Straggler:
    """One of several peers that was slower than the median."""

    name: str
    share: float
    """Relative to the median of its peers, in the first measurement."""

    again: tuple[float, ...] = ()
    """The same in the later ones; () if there were none."""

    waited: float = 0.0
    """Share of the time that other processes took, the larger one of the first and the later measurements."""

    is_confirmed: bool = False


def suspects(measured: Measured) -> tuple[str, ...]:
    """Return the peers below LOW of the median, the slowest first.

    Returns () for fewer than FEWEST, and if more than a third is low: then there is no majority to compare with.
    """
    if len(measured) < FEWEST:
        return ()
    shares = _shares({name: each.rate for name, each in measured.items()})
    low = [name for name, share in shares.items() if share < LOW]
    return () if len(low) * 3 > len(measured) else tuple(sorted(low, key=lambda name: (shares[name], name)))


def repeats(measured: Measured) -> int:
    """Return the number of further measurements after which one slow rate of a healthy peer prevents no verdict."""
    low = len(suspects(measured))
    others = len(measured) - low
    enough = (
        count for count in range(1, MOST_ROUNDS)
        if best_chance(1 + count, (1 + count) * others, len(measured)) <= MOST_ERROR
    )  # fmt: skip
    return next(enough, MOST_ROUNDS) if low else 0


def peer_verdict(first: Measured, later: Sequence[Measured]) -> tuple[Straggler, ...]:
    """Return the suspects of the `first` measurement, each with what the `later` ones say."""
    names = suspects(first)
    every = [_shares({name: each.rate for name, each in measured.items()}) for measured in (first, *later)]
    alone = [_shares({name: each.alone for name, each in measured.items()}) for measured in (first, *later)]
    others = [share for shares in every for name, share in shares.items() if name not in names]
    found = []
    for name in names:
        draws = [shares[name] for shares in every]
        is_slow = bool(later) and max(median(draws[1:]), median(each[name] for each in alone[1:])) < LOW
        waited = max(first[name].waited, median(each[name].waited for each in later) if later else 0.0)
        is_confirmed = is_slow and chance(draws, others, len(first)) <= MOST_ERROR
        found.append(Straggler(name, draws[0], tuple(draws[1:]), waited, is_confirmed))
    return tuple(found)


def _shares(rates: Mapping[str, float]) -> dict[str, float]:
    middle = median(rates.values())
    return {name: rate / middle if middle > 0 else 1.0 for name, rate in rates.items()}


MOST_ERROR = 1e-4
"""Probability that chance makes a verdict name any good node."""

MOST_ROUNDS = 16
"""Measurements that confirm a suspicion."""


def chance(draws: Sequence[float], others: Sequence[float], candidates: int) -> float:
    """Return a bound of the probability that chance makes `draws` of any of `candidates` as low among `others`.

    The test compares ranks and assumes no distribution: of k rates of a suspect and K of others, the probability that
    the k are among the lowest k + t is C(k + t, t) / C(k + K, k), for each of the peers that could be the suspect.
    """
    if not draws or not others:
        return 1.0
    below = bisect_left(sorted(others), max(draws))
    return min(1.0, candidates * comb(len(draws) + below, below) / comb(len(draws) + len(others), len(draws)))


def best_chance(draws: int, others: int, candidates: int) -> float:
    """Return the bound of `chance` for rates that are lower than all of `others` but one."""
    return candidates * (draws + 1) / comb(draws + others, draws)
