"""Waiting for the other ranks: a bounded number of tries, each twice as long, and at each it is said who is missing."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Callable, FrozenSet, Iterable

Attempt = Callable[[float], FrozenSet[int]]
"""Wait so many seconds for everybody; who is missing then. Returns as soon as nobody is."""


class MissingRanksError(TimeoutError):
    """Not all ranks came, however long we waited."""

    def __init__(self, missing: frozenset[int], world_size: int, waited_s: float) -> None:
        super().__init__(
            f"{told(missing)} of {world_size} did not come within {waited_s:.0f} s: look at what they wrote last"
        )
        self.missing = missing


@dataclass(frozen=True)
class Patience:
    """How often to try, and how long the first try lasts, in seconds. The default is 10 + 20 + 40 + 80 + 160."""

    tries: int = 5
    first_s: float = 10.0

    def __post_init__(self) -> None:
        if self.tries < 1 or self.first_s <= 0:
            raise ValueError(f"patience: expected at least one try, and more than 0 s for the first; got {self!r}")

    @property
    def waits(self) -> tuple[float, ...]:
        """Seconds of each try."""
        return tuple(self.first_s * 2**number for number in range(self.tries))


def told(ranks: Iterable[int]) -> str:
    """ "rank 3", "ranks 1, 4-7"."""
    numbers = sorted(ranks)
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(parts)}"


def say(text: str) -> None:
    """A line for whoever watches this rank."""
    sys.stderr.write(f"pylaunch: {text}\n")
    sys.stderr.flush()


def gather(
    attempt: Attempt,
    world_size: int,
    patience: Patience,
    clock: Callable[[], float] = time.monotonic,
    tell: Callable[[str], None] = say,
) -> float:
    """Try until nobody is missing; the seconds it took. Raises MissingRanksError after the last try."""
    began = clock()
    missing: frozenset[int] = frozenset()
    for number, wait_s in enumerate(patience.waits, start=1):
        missing = attempt(wait_s)
        if not missing:
            return clock() - began
        waited = f"after {clock() - began:.0f} s, try {number} of {patience.tries}"
        tell(f"{told(missing)} of {world_size} not here yet ({waited})")
    raise MissingRanksError(missing, world_size, clock() - began)
