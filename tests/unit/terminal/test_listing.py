"""Cells of a run in `ps` and `status`."""

from datetime import UTC, datetime, timedelta

import pytest

from pylaunch.model.outcome import Outcome, Status
from pylaunch.terminal.listing import LONGEST_COMMAND, doubt, job_words
from pylaunch.terminal.options import parse_since


def test_a_command_takes_one_line_of_a_listing() -> None:
    shown = job_words(("python", "-c", "import torch\ntrain()", "x" * 100_000))
    assert shown.startswith("python -c 'import torch train()' xxx")
    assert (len(shown), shown[-1]) == (LONGEST_COMMAND + 1, "…")


NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("1d2h3m4s", 93784), ("0s", 0), (" 10m ", 600)],
)
def test_how_long_ago(text: str, ago_s: int) -> None:
    assert parse_since(text, NOW) == (NOW - timedelta(seconds=ago_s)).timestamp()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-01T11:30:00Z", datetime(2026, 3, 1, 11, 30, tzinfo=UTC)),
        ("2026-03-01T12:30+01:00", datetime(2026, 3, 1, 11, 30, tzinfo=UTC)),
        ("2026-02-28 23:00:01.5", datetime(2026, 2, 28, 23, 0, 1, 500_000).astimezone()),
        ("2026-02-27", datetime(2026, 2, 27).astimezone()),
    ],
)
def test_when(text: str, moment: datetime) -> None:
    assert parse_since(text, NOW) == moment.timestamp()


@pytest.mark.parametrize(
    "text", ["", " ", "10", "10 m", "m10", "30m1h", "-5m", "1.5h", "yesterday", "2026-13-01", "9" * 30 + "d"]
)
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"how long ago, such as 90s, 10m or 1h30m, .* got "):
        parse_since(text, NOW)


def test_a_run_of_which_something_is_left_is_not_listed_as_one_that_is_clean() -> None:
    left = Outcome(Status.FAILED, "why", 1.0, (), {"n1": ("pid 4121 (sleep 600)",)})
    assert doubt(left) == ", not clean"
    assert doubt(Outcome(Status.FAILED, "why", 1.0, (), {}, unproven=("n2",))) == ", not proven clean"
    assert doubt(Outcome(Status.FAILED, "why", 1.0, (), {})) == ""
