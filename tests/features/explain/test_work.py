"""The ends of the logs of a run are kept within a bound."""

from pylaunch.features.explain.judgement.error_form import search_of
from pylaunch.features.explain.work import _Tails
from pylaunch.runs.events import LinesWritten
from pylaunch.store.content import signatures


def test_of_a_long_log_the_end_is_kept() -> None:
    tails = _Tails(lambda _: None, 1000)
    for number in range(5000):
        tails.take(LinesWritten("n1", "3.err", f"line {number}\n", 0.0))
    tails.take(LinesWritten("n1", "3.err", "ModuleNotFoundError: No module named 'flash_attn'\n", 0.0))
    [found] = tails.scans(search_of(signatures()))
    assert found.size <= 1000
    assert (found.origin.host, found.origin.rank) == ("n1", 3)
    assert [match.line for match in found.matches] == [found.lines]
