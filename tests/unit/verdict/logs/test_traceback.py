"""Tracebacks whose lines all have what a logger or a launcher prints before them."""

from pylaunch.store.content import signatures
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.judgement import judge_texts
from tests.unit.verdict.logs.judged import scanned

LOGGED = """ERROR 10-13 09:06:{s} [exec.py:597] Traceback (most recent call last):
ERROR 10-13 09:06:{s} [exec.py:597]   File "/srv/worker.py", line 571, in main
INFO another process prints this
ERROR 10-13 09:06:{s} [exec.py:597]     worker = Worker()
ERROR 10-13 09:06:{s} [exec.py:597] KeyError: 'abc'
"""


def causes(text: str) -> list[str]:
    return [each.cause.id for each in judge_texts(signatures(), LogFacts([scanned(text)])).causes]


def test_a_traceback_with_the_time_of_a_logger_before_each_line_is_read_whole() -> None:
    (unit,) = scanned(f"start\n{LOGGED.format(s=25)}rc=1\n").exceptions
    assert (unit.chain[-1].text, unit.chain[-1].place) == ("KeyError: 'abc'", "/srv/worker.py:571")


def test_a_logged_exception_counts_if_the_log_ends_with_it_or_with_words_of_a_failure() -> None:
    assert causes(f"start\n{LOGGED.format(s=25)}rc=1\n") == ["unexplained"]
    assert causes(f"start\n{LOGGED.format(s=25)}saved\nall written\nbye\nleft\n") == []
