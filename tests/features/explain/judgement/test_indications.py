"""Indications of recorded ranks beside each other, and the verdicts with them."""

import pytest

from pylaunch.features.explain.judgement.findings import indications_in
from pylaunch.features.explain.judgement.indication import Indication
from tests.features.explain.judgement.recorded import recorded, texts_of
from tests.features.explain.judgement.verdicts import first_cause, scanned, verdict_on

CASES = recorded("indications.toml")
TEXTS = texts_of(CASES)


def found_in(name: str) -> list[Indication]:
    return indications_in([scanned(TEXTS[name])])


def of_class(found: list[Indication], cause: str) -> list[str]:
    return [each.text for each in found if each.cause == cause and each.names is not None]


@pytest.mark.parametrize("name", CASES)
def test_the_text_shows_what_was_recorded_of_it(name: str) -> None:
    case, found = CASES[name], found_in(name)
    for cause, clause in case.get("names", {}).items():
        assert any(clause in text for text in of_class(found, cause)), found
    assert {each.cause for each in found if each.names is not None} == set(case.get("names", {}))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "verdict" in case])
def test_the_verdict_with_it(name: str) -> None:
    first, case = first_cause(TEXTS[name]), CASES[name]
    assert (first.cause.id, first.confidence.value) == (case["verdict"], case["confidence"]), first
    assert list(first.ranks) == case.get("ranks", [])
    assert "evidence" not in case or first.evidence[0].line == case["evidence"]


def test_ranks_that_do_not_differ_name_nothing() -> None:
    plain = [name for name, case in CASES.items() if case.get("none")]
    assert plain
    for name in plain:
        verdict = verdict_on(TEXTS[name])
        named = [(cause.cause.id, cause.text) for cause in verdict.causes if cause.signature == "comparison"]
        assert named == [], name


def test_the_beginning_of_each_text_is_read_too() -> None:
    for name in CASES:
        text = TEXTS[name]
        for end in range(0, len(text), max(1, len(text) // 4)):
            indications_in([scanned(text[:end])])  # Must not fail.
