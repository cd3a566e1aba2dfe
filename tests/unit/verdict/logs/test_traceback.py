"""Tracebacks whose lines all have what a logger or a launcher prints before them."""

from pylaunch.store.signatures import signatures
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
    assert causes(f"start\n{LOGGED.format(s=25)}rc=1\n") == ["program-error"]
    assert causes(f"start\n{LOGGED.format(s=25)}saved\nall written\nbye\nleft\n") == []


def test_tracebacks_of_two_processes_whose_names_are_before_their_lines_are_kept_apart() -> None:
    lines = LOGGED.replace("ERROR 10-13 09:06:{s} [exec.py:597]", "{name}>")
    mixed = [
        line
        for pair in zip(
            lines.replace("{name}", "svc-a").splitlines(), lines.replace("{name}", "svc-b").splitlines(), strict=True
        )
        for line in pair
    ]
    found = scanned("\n".join(["svc-a> up", "svc-b> up", *(each for each in mixed if "INFO" not in each)])).exceptions
    assert [(each.origin.host, each.chain[-1].text) for each in found] == [
        ("svc-a", "KeyError: 'abc'"), ("svc-b", "KeyError: 'abc'"),
    ]  # fmt: skip


def test_a_traceback_whose_first_line_alone_has_a_prefix_is_read_as_before() -> None:
    (unit,) = scanned(
        '2026-11-28 failed: Traceback (most recent call last):\n  File "/srv/a.py", line 3\nKeyError: 1\n'
    ).exceptions
    assert unit.chain[-1].place == "/srv/a.py:3"


def test_a_message_that_begins_with_an_empty_line_is_the_line_after_it() -> None:
    trace = 'Traceback (most recent call last):\n  File "/srv/a.py", line 3\n'
    text = "ImportError: Orbit requires the lattice library but it was not found."
    (unit,) = scanned(trace + text.replace(": ", ": \n\n") + "\nend\n").exceptions
    assert unit.chain[-1].text == text
    (unit,) = scanned(f"{trace}AssertionError\nstopping\n").exceptions
    assert unit.chain[-1].text == "AssertionError"


def test_the_reason_of_a_validation_error_is_part_of_its_message() -> None:
    trace = 'Traceback (most recent call last):\n  File "/srv/a.py", line 3\n'
    head = "pydantic.ValidationError: 1 validation error for OrbitConfig"
    for below, reason in (
        (
            "  Value error, orbits are flat [type=value_error, input_value=1]\n    see the manual\n",
            "Value error, orbits are flat",
        ),
        (
            "depth\n  value is not a valid integer (type=type_error.integer)\nend\n",
            "depth value is not a valid integer",
        ),
    ):
        (unit,) = scanned(f"{trace}{head}\n{below}").exceptions
        assert unit.chain[-1].text == f"{head} {reason}"
    layout = "  Value error, 40 attention heads cannot be split evenly among 3 ranks [type=value_error]\n"
    assert causes(f"{trace}{head}\n{layout}") == ["parallel-layout"]
    assert causes(f"{trace}{head}\nmicro_batch_size\n  Input should be a valid integer [type=int_type]\n") == [
        "framework-config"
    ]
