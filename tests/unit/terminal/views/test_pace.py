"""Rate of a rank on the board."""

import pytest

from pylaunch.terminal.views.pace import LONGEST_S, Pace, RankStep


def paced(*marks: tuple[int, float], total: int = 0) -> Pace:
    pace = Pace()
    for step, time in marks:
        pace.add(RankStep(3, step, time, total))
    return pace


def test_the_rate_is_that_of_the_last_minute() -> None:
    slow_then_fast = [(10, 0.0), (20, 100.0), *((20 + 4 * seconds, 100.0 + seconds) for seconds in range(2, 91, 2))]
    assert paced(*slow_then_fast).rate(3, 190.0) == pytest.approx(4.0)


def test_a_rank_that_is_stuck_has_no_rate() -> None:
    pace = paced((10, 10.0), (20, 20.0))
    assert pace.rate(3, 21.0) == pytest.approx(1.0)
    assert pace.rate(3, 40.0) is None


def test_the_remaining_time_is_known_only_with_a_total() -> None:
    marks = (10, 10.0), (20, 20.0)
    assert paced(*marks).left_s(RankStep(3, 20, 20.0), 22.0) is None
    assert paced(*marks).left_s(RankStep(3, 20, 20.0, 100), 22.0) == pytest.approx(78.0)
    assert paced(*marks).left_s(RankStep(3, 20, 20.0, 20), 22.0) == 0.0
    assert paced(*marks).left_s(RankStep(3, 20, 20.0, round(LONGEST_S) * 2), 22.0) is None


def test_forged_marks_of_a_rank_cause_no_error() -> None:
    pace = paced((-(2**63), 1e-320), (2**63 - 1, 1e300), (5, 2e-320), total=2**63 - 1)
    for now in (0.0, 1e9):
        pace.left_s(RankStep(3, -(2**63), 1e300, 2**63 - 1), now)
    pace = paced((1, 1e-320), (2, 2e-320), (2**63 - 1, 3e-320), total=2**63 - 1)
    pace.left_s(RankStep(3, 1, 2e-320, 2**63 - 1), 3e-320)
