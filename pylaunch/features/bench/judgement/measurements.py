"""Lines of the ranks of `pylaunch bench`, decoded. Pure.

A rank is not trusted: a line that is longer than MOST_LINE, no JSON, of another type, out of bounds or for another rank
than the one that wrote it is dropped and counted. The number of lines of each rank is bounded, too: one that writes
without end spoils its own numbers only.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from pylaunch.base.dataclass import dataclass, field
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object
from pylaunch.model.text import typed_json

PREFIX = "pylaunch bench: "
"""As in `ranks/bench_rank.py`."""

MOST_LINE = 32 << 10
MOST_TIMES = 1000
MOST_LINES = 1000
"""Of each rank."""

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Seconds = Annotated[float, msgspec.Meta(ge=1e-9, le=86400)]
"""A nanosecond at least, the resolution of the clock: a smaller number would make rates that are not finite."""

Times = Annotated[tuple[Seconds, ...], msgspec.Meta(min_length=1, max_length=MOST_TIMES)]
Text = Annotated[str, msgspec.Meta(max_length=200)]


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    rank: Count


class BarrierPassed(_Line, frozen=True, kw_only=True, tag="barrier"):
    """All ranks met at rank 0."""


class SumChecked(_Line, frozen=True, kw_only=True, tag="correctness"):
    """Result of the small all-reduce."""

    wrong: Count
    framework: Text
    """Name and version."""

    device: Text


class AllReduceTimed(_Line, frozen=True, kw_only=True, tag="all-reduce"):
    """Time of the all-reduce of one size."""

    size: Count
    seconds: Times
    """Means of parts of the iterations, on the slowest rank."""

    wrong: Count
    """Elements with a wrong value on all ranks."""


class PairTimed(_Line, frozen=True, kw_only=True, tag="pair"):
    """Times of exchanges with another rank, in both directions at once."""

    round: Count
    peer: Count
    size: Count
    seconds: Times


class StageEnded(_Line, frozen=True, kw_only=True, tag="end"):
    """A stage ended on all ranks."""

    stage: Text


Measured = BarrierPassed | SumChecked | AllReduceTimed | PairTimed | StageEnded


def bandwidth(size: int, seconds: float) -> float:
    """Return `size` bytes / `seconds` in GB/s (10^9 bytes/s). Raises ValueError for a time that is not positive."""
    if seconds <= 0:
        raise ValueError(f"{seconds!r} s is no duration")
    return size / seconds / 1e9


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Return the bus bandwidth of an all-reduce in GB/s, as nccl-tests defines it (doc/PERFORMANCE.md).

    It does not depend on the number of ranks, so that it can be compared with the speed of a link.
    """
    return bandwidth(size, seconds) * 2 * (ranks - 1) / ranks


@dataclass
class Readings:
    """Lines of all ranks, in order of arrival, for each kind."""

    ranks: int
    most: int = MOST_LINES
    """Lines of each rank."""

    dropped: int = 0
    _kept: dict[type[Any], list[Any]] = field(default_factory=dict)
    _taken: Counter[int] = field(default_factory=Counter)
    """Rank → number of lines."""

    @property
    def lines(self) -> list[Measured]:
        """Return all lines, kind by kind."""
        return [line for lines in self._kept.values() for line in lines]

    def take(self, rank: int | None, line: str) -> Measured | None:
        """Keep what `rank` wrote, and return it; None for a line that is none of a measurement, or is dropped."""
        head, found, body = line.partition(PREFIX)
        if head or not found:
            return None
        decoded = _decoded(body)
        is_own = decoded is not None and decoded.rank == rank and self._is_possible(decoded)
        if decoded is None or not is_own or self._taken[decoded.rank] >= self.most:
            self.dropped += 1
            return None
        self._taken[decoded.rank] += 1
        self._kept.setdefault(type(decoded), []).append(decoded)
        return decoded

    def _is_possible(self, line: Measured) -> bool:
        """Return False for a rank that does not exist, and for results of all ranks that another one than 0 claims."""
        if isinstance(line, AllReduceTimed | StageEnded):
            return line.rank == 0
        return not isinstance(line, PairTimed) or (line.peer < self.ranks and line.peer != line.rank)

    def of(self, kind: type[Any]) -> Sequence[Any]:
        """Return the lines of one kind."""
        return self._kept.get(kind, ())


def _decoded(body: str) -> Measured | None:
    try:
        decoded: Measured = typed_json.converted(parse_object(body, MOST_LINE), Measured)
    except (UntrustedJsonError, msgspec.ValidationError):
        return None
    return decoded
