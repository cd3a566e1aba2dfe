"""Steps of ranks, their rate, and their remaining time. Pure; times are passed in."""

from collections import deque

from pylaunch.base.dataclass import dataclass, field

WINDOW_S = 60.0
"""The rate is measured over the last minute."""

STALLED_STEPS = 3.0
STALLED_S = 10.0
"""A rank that is late by this many steps and seconds has no rate."""

LONGEST_S = 10 * 365 * 86400.0


@dataclass(frozen=True)
class RankStep:
    """The last step of a rank, and when, in seconds since the epoch on our clock."""

    rank: int
    step: float
    time: float
    total: float = 0
    """The last step that there will be; 0 where the rank does not say."""

    unit: str = "step"
    """"step", or "epoch" where the output names no step."""

    is_exact: bool = True
    """The rank has marked it; False for one that was read from the output."""


@dataclass
class Pace:
    """The last marks of every rank."""

    _marks: dict[int, deque[RankStep]] = field(default_factory=dict)

    def add(self, mark: RankStep) -> None:
        """Add a mark, which may be known already. Earlier marks are dropped when steps begin again."""
        marks = self._marks.setdefault(mark.rank, deque())
        if marks and (mark.step < marks[-1].step or mark.time < marks[-1].time):
            marks.clear()
        if not marks or mark.step > marks[-1].step:
            marks.append(mark)
        while len(marks) > 2 and marks[-1].time - marks[1].time >= WINDOW_S:
            marks.popleft()

    def rate(self, rank: int, now: float) -> float | None:
        """Return the steps a second; None before the second mark, and while the next step is overdue."""
        marks = self._marks.get(rank)
        if marks is None or len(marks) < 2 or (elapsed := marks[-1].time - marks[0].time) <= 0:
            return None
        rate = (marks[-1].step - marks[0].step) / elapsed
        return rate if now - marks[-1].time < STALLED_S + STALLED_STEPS / rate else None

    def left_s(self, mark: RankStep, now: float) -> float | None:
        """Return the seconds for the steps after `mark`; None when their number is not known."""
        rate = self.rate(mark.rank, now)
        if rate is None or mark.total <= 0:
            return None
        left = (mark.total - mark.step) / rate - (now - mark.time)
        return max(0.0, left) if left < LONGEST_S else None


def shown_rate(rate: float) -> str:
    """ "4.1 steps/s", "3.2 s/step"."""
    return f"{rate:.3g} steps/s" if rate > 1 else f"{1 / rate:.3g} s/step"
