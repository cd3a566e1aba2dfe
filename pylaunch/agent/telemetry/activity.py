"""Signs of life of ranks, from their log files: a rank notices nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pylaunch import protocol
from pylaunch.agent.shared import rank_files


class ActivityMeter:
    """Source of the signs of life for one controller, every `every_s`."""

    def __init__(
        self, every_s: float, ranks: Callable[[], Iterable[int]], streams: Mapping[str, str],
        step: Callable[[int], int | None],
    ) -> None:  # fmt: skip
        self._every_s = every_s
        self._ranks = ranks
        """Returns the ranks that run."""

        self._streams = streams
        self._step = step
        self._next = 0.0
        self._last: protocol.Activity | None = None

    def read(self, now: float) -> protocol.Activity | None:
        """Return the signs of life; None before the next are due, and while nothing changes. `now` is monotonic."""
        if now < self._next:
            return None
        self._next = now + self._every_s
        signs = [self._signs(rank) for rank in sorted(self._ranks())]
        activity = protocol.Activity(signs)
        if activity == self._last:
            return None
        self._last = activity
        return activity

    def _signs(self, rank: int) -> protocol.RankSigns:
        written = sum(rank_files.size(self._streams[f"{rank}.{end}"]) for end in ("out", "err"))
        return protocol.RankSigns(rank, written, self._step(rank))
