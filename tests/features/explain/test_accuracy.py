"""Rates of right causes: their arithmetic, and the rates that recorded logs must have."""

from functools import cache

import pytest

from benchmarks import explain_accuracy as measured
from benchmarks.explain_accuracy import FILES, Judged, Rates


def case(named: str, *expected: str, confidence: str = "high") -> Judged:
    return Judged("case", expected, tuple(named.split()), confidence if len(named.split()) == 1 else "")


@pytest.mark.parametrize(
    ("judged", "outcome"),
    [
        (case("memlock", "memlock"), "right"),
        (case("nofile", "memlock", "nofile"), "right"),
        (case("memlock", "nofile"), "wrong"),
        (case("", "memlock"), "silent"),
        (case(""), ""),
        (case("memlock"), "blamed"),
        (case("nofile memlock", "memlock"), "among"),
        (case("nofile memlock", "nproc"), "missed"),
        (case("nofile memlock"), ""),
        (case("memlock", "memlock", confidence=""), "among"),
        (Judged("case", (), ("memlock",), is_healthy=True), "healthy"),
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
        "one of a healthy run",
    ],
)
def test_a_verdict_counts_as(judged: Judged, outcome: str) -> None:
    assert judged.outcome == outcome


def test_shares_are_of_the_logs_that_may_have_the_outcome() -> None:
    cases = [
        case("memlock", "memlock"),
        case("memlock", "nofile"),
        case("memlock", "memlock", confidence=""),
        case("", "memlock"),
        case(""),
        Judged("rank", ("nofile",), ("nofile",), "medium", ranks=(3,), accused=(2,)),
    ]
    rates = Rates(cases)
    [_, _, row] = measured.table({"unseen": rates.data()})
    assert row.startswith("| unseen | 2 of 5 (40 %) | 1 of 5 (20 %) | 1 of 5 (20 %) | 0 of 5 (0 %) | 1 of 5 (20 %) |")
    assert row.endswith("| 0 of 1 (0 %) |  | 0 of 1 (0 %) | 1 of 1 (100 %) | 1 of 2 (50 %) | 1 of 1 (100 %) |")
    assert rates.share("right", "among") == 0.6


def test_abstaining_classes_name_no_cause_unless_the_thread_settled_on_one() -> None:
    text = "Signal 9 (SIGKILL) received by PID 71\n"
    [alone] = measured.judged([("a", {"cause": "host-oom", "also": ["killed"], "text": text})])
    assert (alone.named, alone.outcome) == (("killed",), "among")
    [alone] = measured.judged([("a", {"abstains": True, "text": text})])
    assert (alone.confidence, alone.outcome) == ("", "")


HELD_OUT = "threads, seventh batch"


@cache
def rates(name: str) -> Rates:
    return Rates(measured.judged(measured.recorded(FILES[name])))


@pytest.mark.parametrize(("name", "shown"), [("unseen", 0.93), ("gpu", 0.93), ("seen", 0.97), (HELD_OUT, 0.85)])
def test_recorded_logs_get_their_cause_alone_or_among_three(name: str, shown: float) -> None:
    assert rates(name).share("right", "among") >= shown


@pytest.mark.parametrize(("name", "wrong"), [("unseen", 0.03), ("gpu", 0.03), ("seen", 0.02), (HELD_OUT, 0.06)])
def test_few_recorded_logs_get_a_wrong_cause_alone(name: str, wrong: float) -> None:
    assert rates(name).share("wrong") <= wrong
    assert rates(name).counts["high"] >= 0.95 * rates(name).of["high"]
    assert rates(name).counts["medium"] >= 0.75 * rates(name).of["medium"]


def test_few_logs_that_do_not_show_their_cause_get_one_and_no_healthy_run_is_blamed() -> None:
    assert sum(rates(name).counts["blamed"] for name in ("unseen", "gpu", "seen")) <= 2
    assert rates("healthy").counts["healthy"] == rates("seen").counts["healthy"] == 0


def test_ranks_to_blame_are_named_and_no_other_ones() -> None:
    assert rates("seen").counts["rank"] >= 85
    assert rates("seen").counts["other rank"] == 0
