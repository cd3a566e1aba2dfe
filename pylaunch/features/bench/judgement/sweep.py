"""Sizes, iterations and limits of a sweep. Pure."""

from collections.abc import Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.features.bench.judgement.operations import Operation
from pylaunch.model.text.size import parse_size

SMALLEST = 4
"""Bytes of one element."""

LARGEST = 64 << 30
MOST_ITERATIONS = 100_000
MOST_RANKS = 65_024
"""Sums of more ranks are not exact (`ranks/collectives.py`)."""

GROWTH = 4
"""Factor between neighbouring sizes."""

DEFAULT_LARGEST = {"nccl": 1 << 30}
"""Largest size by backend; below 512 MiB, a fabric with NVLink and InfiniBand does not reach its bandwidth."""

USUAL_LARGEST = 64 << 20


@dataclass(frozen=True)
class Sweep:
    """Sizes in bytes, and iterations of each."""

    smallest: int = 4 << 10
    largest: int = USUAL_LARGEST
    iterations: int = 20
    """Most timed iterations of one size; large sizes get fewer, so that one takes about `seconds_per_size`."""

    warm_up: int = 5
    seconds_per_size: float = 0.5
    time_limit_s: float = 300.0
    """For one run of ranks; sizes that would exceed it are omitted."""

    operations: tuple[Operation, ...] = tuple(Operation)

    def sizes(self) -> tuple[int, ...]:
        """Return sizes from the smallest to the largest, each GROWTH times the one before; the last is the largest."""
        return tuple(self._sizes())

    def _sizes(self) -> Iterator[int]:
        size = self.smallest
        while size < self.largest:
            yield size
            size *= GROWTH
        yield self.largest


def checked_sweep(
    smallest: str | None, largest: str | None, iterations: int | None, warm_up: int | None, time_limit_s: float | None
) -> Sweep:
    """Return a sweep of what flags request; None is the default. Raises ValueError, which names flag and value."""
    plain = Sweep()
    first = plain.smallest if smallest is None else _size("--min-size", smallest)
    last = plain.largest if largest is None else _size("--max-size", largest)
    if smallest is None:
        first = min(first, last)
    if first > last:
        raise ValueError(f"--min-size {smallest} is larger than --max-size {largest or plain.largest}")
    count = plain.iterations if iterations is None else iterations
    if not 1 <= count <= MOST_ITERATIONS:
        raise ValueError(f"--iterations {count}: expected 1 … {MOST_ITERATIONS}")
    cold = plain.warm_up if warm_up is None else warm_up
    if not 0 <= cold <= MOST_ITERATIONS:
        raise ValueError(f"--warm-up {cold}: expected 0 … {MOST_ITERATIONS}")
    limit = plain.time_limit_s if time_limit_s is None else time_limit_s
    if not 1 <= limit <= 86400:
        raise ValueError(f"--time-limit {limit:g}: expected 1 … 86400 seconds")
    return Sweep(first, last, count, cold, plain.seconds_per_size, limit)


def _size(flag: str, text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"{flag} {text}: expected {SMALLEST} bytes (one element) … {LARGEST >> 30}GiB")
    return size
