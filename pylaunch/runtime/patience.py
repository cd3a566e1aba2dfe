"""Wait for other ranks with a bounded number of tries, each twice as long, and report the missing ranks after each."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Callable, FrozenSet, Iterable

Attempt = Callable[[float], FrozenSet[int]]
"""Function that waits up to so many seconds for all ranks, and returns the missing ones."""


class MissingRanksError(TimeoutError):
    """Some ranks did not connect within all tries."""

    def __init__(self, missing: frozenset[int], world_size: int, waited_s: float) -> None:
        super().__init__(
            f"{folded(missing)} of {world_size} did not connect within {waited_s:.0f} s: see their last output"
        )
        self.missing = missing


@dataclass(frozen=True)
class Patience:
    """Number of tries, and seconds of the first try. The default waits 10 + 20 + 40 + 80 + 160 s."""

    tries: int = 5
    first_s: float = 10.0

    def __post_init__(self) -> None:
        if self.tries < 1 or self.first_s <= 0:
            raise ValueError(f"patience: expected at least one try, and more than 0 s for the first; got {self!r}")

    @property
    def waits(self) -> tuple[float, ...]:
        """Timeout of each try in seconds."""
        return tuple(self.first_s * 2**number for number in range(self.tries))


def folded(ranks: Iterable[int]) -> str:
    """Return ranks folded: "rank 3", "ranks 1, 4-7"."""
    numbers = sorted(ranks)
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(parts)}"


def log(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"pylaunch: {text}\n")
    sys.stderr.flush()


def gather(
    attempt: Attempt,
    world_size: int,
    patience: Patience,
    clock: Callable[[], float] = time.monotonic,
    report: Callable[[str], None] = log,
) -> float:
    """Try until no rank is missing; return the seconds that it took. Raises MissingRanksError after the last try."""
    began = clock()
    missing: frozenset[int] = frozenset()
    for number, wait_s in enumerate(patience.waits, start=1):
        missing = attempt(wait_s)
        if not missing:
            return clock() - began
        waited = f"after {clock() - began:.0f} s, try {number} of {patience.tries}"
        report(f"{folded(missing)} of {world_size} not here yet ({waited})")
    raise MissingRanksError(missing, world_size, clock() - began)
