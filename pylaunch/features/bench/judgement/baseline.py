"""Comparison of results with earlier ones of the same cluster. Pure."""

from collections.abc import Iterable
from statistics import median

from pylaunch.base.dataclass import dataclass
from pylaunch.features.bench.judgement.measurements import CollectiveTimed
from pylaunch.features.bench.judgement.operations import bus_bandwidth

LEAST_LOSS = 0.1
"""A smaller loss is no regression, however quiet the measurement."""

NOISE_FACTOR = 3.0


@dataclass(frozen=True)
class Level:
    """Bandwidth of a collective at one size with its noise, as the file of a baseline has it."""

    operation: str
    bytes: int
    busbw_gbps: float
    """Median."""

    noise: float
    """Standard deviation relative to it."""


Key = tuple[str, int]
"""Name of a collective, and size in bytes."""


@dataclass(frozen=True)
class Baseline:
    """Earlier results under the same conditions."""

    conditions: str
    """Hosts, ranks, backend and network, as text: results under other conditions are not compared."""

    made_at: str
    """ISO 8601."""

    levels: tuple[Level, ...]


def levels(collectives: Iterable[CollectiveTimed], ranks: int) -> dict[Key, Level]:
    """Return the bus bandwidth of each collective and size, with its noise."""
    found = {}
    for each in collectives:
        rates = [bus_bandwidth(each.operation, each.size, one, ranks) for one in each.seconds]
        middle = median(rates)
        noise = 1.4826 * median(abs(rate - middle) for rate in rates) / middle
        found[(each.operation.value, each.size)] = Level(each.operation.value, each.size, middle, noise)
    return found


@dataclass(frozen=True)
class Regression:
    """Result that is lower than its baseline."""

    operation: str
    size: int
    before: float
    now: float
    """GB/s."""

    noise: float
    """Of both measurements together, relative."""

    @property
    def loss(self) -> float:
        """Return the lost share of the baseline."""
        return 1 - self.now / self.before


def regressions(before: Iterable[Level], now: Iterable[Level]) -> tuple[Regression, ...]:
    """Return what is lower than before by LEAST_LOSS and by NOISE_FACTOR times the noise, the largest loss first."""
    found, known = [], {(each.operation, each.bytes): each for each in before}
    for level in now:
        old = known.get((level.operation, level.bytes))
        if old is None or old.busbw_gbps <= 0:
            continue
        noise = (old.noise**2 + level.noise**2) ** 0.5
        each = Regression(level.operation, level.bytes, old.busbw_gbps, level.busbw_gbps, noise)
        if each.loss > max(LEAST_LOSS, NOISE_FACTOR * noise):
            found.append(each)
    return tuple(sorted(found, key=lambda each: -each.loss))
