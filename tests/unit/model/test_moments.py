"""Times that a node claims are shown, whatever they are."""

import pytest

from pylaunch.features.report import page
from pylaunch.model.clock import LAST, ClockOffset
from pylaunch.model.text import quantity
from pylaunch.terminal import document


@pytest.mark.parametrize("claimed", [1e300, -1e300, 253402300800.0, -1.0])
def test_a_time_without_a_calendar_day_is_shown_as_the_first_or_last_one(claimed: float) -> None:
    year = "9999" if claimed > 0 else "1970"
    assert document.moment(claimed).startswith(year)
    assert page.moment(claimed).startswith(year)
    assert quantity.moment(claimed)[:4] in (year, "1969"), "1969: west of Greenwich"


@pytest.mark.parametrize("offset", [1e300, -1e300])
def test_the_clock_of_a_node_does_not_lead_beyond_the_calendar(offset: float) -> None:
    assert 0.0 <= ClockOffset(offset, 0.1).to_ours(1_700_000_000.0) <= LAST
