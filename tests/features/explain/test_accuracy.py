"""Rates of right causes on the page about accuracy: their arithmetic."""

from pathlib import Path

import pytest

from benchmarks import explain_accuracy as measured
from benchmarks.explain_accuracy import Judged


def case(named: str, *expected: str, confidence: str = "high") -> Judged:
    return Judged("case", expected, tuple(named.split()), confidence if len(named.split()) == 1 else "")


@pytest.mark.parametrize(
    ("judged", "outcome"),
    [
        (case("memlock", "memlock"), "right"),
        (case("nofile", "memlock", "nofile"), "right"),
        (case("memlock", "nofile"), "wrong"),
        (case("", "memlock"), "no cause"),
        (case(""), "right"),
        (case("memlock"), "wrong"),
        (case("nofile memlock", "memlock"), "among several"),
        (case("nofile memlock", "nproc"), "not among several"),
        (case("nofile memlock"), "not among several"),
        (case("memlock", "memlock", confidence=""), "among several"),
    ],
    ids=[
        "the cause",
        "another that the thread left open",
        "another",
        "none",
        "none expected",
        "one where none is",
        "several with the cause",
        "several without it",
        "several where none is",
        "a possibility",
    ],
)
def test_a_verdict_counts_as(judged: Judged, outcome: str) -> None:
    assert judged.outcome == outcome


UNSEEN = [
    case("memlock", "memlock"),
    case("memlock", "nofile"),
    case("memlock", "memlock", confidence=""),
    case("", "memlock"),
    case(""),
]


def test_shares_are_of_all_cases_and_those_by_confidence_of_the_named_ones() -> None:
    lines = list(measured.table({"unseen": UNSEEN}))
    assert "| unseen | 5 | 2 (40 %) | 1 (20 %) | 0 (0 %) | 1 (20 %) | 1 (20 %) |" in lines
    assert "| unseen | high | 2 | 1 (50 %) | 1 |" in lines
    assert "| unseen | medium | 0 | 0 | 0 |" in lines


def test_abstaining_classes_name_no_cause_unless_the_thread_settled_on_one(tmp_path: Path) -> None:
    cases = tmp_path / "cases.toml"
    text = 'text = "Signal 9 (SIGKILL) received by PID 71\\n"\n'
    cases.write_text(f'[a]\ncause = "host-oom"\nalso = ["killed"]\n{text}')
    [alone] = measured.judged([cases])
    assert (alone.named, alone.outcome) == (("killed",), "among several")
    cases.write_text(f"[a]\nabstains = true\n{text}")
    [alone] = measured.judged([cases])
    assert (alone.named, alone.confidence, alone.outcome) == ((), "", "right")
