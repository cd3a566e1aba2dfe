"""The first error is found by its form alone, in logs of programs that no signature knows."""

import tomllib

from pylaunch.base.dataclass import replace
from pylaunch.features.explain.judgement.errors.error_form import ErrorForm, error_form
from pylaunch.features.explain.judgement.errors.error_words import HANDLED
from pylaunch.features.explain.judgement.errors.first_error import FirstError
from pylaunch.features.explain.judgement.topics import search_of
from pylaunch.features.explain.judgement.verdict import LogVerdict, judge_logs
from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.line import LinePrefixes, Origin
from pylaunch.verdict.logs.scan import scan
from pylaunch.verdict.logs.signature import Role
from tests.features.explain.judgement.recorded import CASES, recorded, texts_of
from tests.features.explain.judgement.verdicts import verdict_on

CATALOGUE = signatures()
NO_SIGNATURE = replace(CATALOGUE, signatures={})
ALONE = search_of(NO_SIGNATURE)
FORMS = {
    f"{file.stem}/{name}": case
    for file in sorted((CASES / "error_forms").glob("*.toml"))
    for name, case in tomllib.loads(file.read_text(encoding="utf-8")).items()
}


def shown(verdict: LogVerdict) -> list[str]:
    """The lines that an explanation prints first: the first error, or the evidence of the first cause."""
    if verdict.first_error is not None:
        return [verdict.first_error.evidence.text]
    return [] if verdict.first is None else [line.text for line in verdict.first.evidence]


def test_the_first_error_of_a_log_that_no_signature_knows_is_shown() -> None:
    for name, case in FORMS.items():
        verdict = verdict_on(case["log"].lstrip("\n"))
        assert any(case["line"] in line for line in shown(verdict)), name
        if verdict.first_error is not None:
            assert (verdict.first_error.kind.value, verdict.abstains) == (case["kind"], True), name
        else:
            assert verdict.first is not None, name


def form_of(line: str) -> ErrorForm | None:
    return error_form(LinePrefixes().parse(line, Origin()).text)


def known_lines() -> dict[str, str]:
    """The lines with the form of an error that a signature knows as a failure, and those of the recorded logs.

    Not those with words of a program that continues: alone, they are no failure.
    """
    failures = (Role.ROOT, Role.SYMPTOM, Role.WRAPPER)
    found = {f"example of {each.id}": each.example for each in CATALOGUE.signatures.values() if each.role in failures}
    texts = texts_of(recorded("logs")) | {file.stem: file.read_bytes() for file in (CASES / "rank_ends").glob("*.txt")}
    for name, text in texts.items():
        for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
            found[f"{name}:{number}"] = line
    return {name: line for name, line in found.items() if form_of(line) is not None and not HANDLED.search(line)}


def test_most_failures_that_a_signature_knows_have_the_form_of_an_error() -> None:
    known = [each for each in CATALOGUE.signatures.values() if each.role in (Role.ROOT, Role.SYMPTOM, Role.WRAPPER)]
    formless = [each.id for each in known if form_of(each.example) is None]
    assert len(formless) <= len(known) // 20, formless


def is_shown(line: str) -> bool:
    """Return whether an explanation prints the second line first."""
    log = f"reading the configuration\n{line}\n"
    verdict = judge_logs(NO_SIGNATURE, [scan(ALONE, "x.log", [log.encode()], Origin())])
    shown = verdict.first.evidence[0] if verdict.first_error is None and verdict.first else verdict.first_error
    return (
        verdict.failed and shown is not None and (shown.evidence if isinstance(shown, FirstError) else shown).line == 2
    )


def test_a_line_with_the_form_of_an_error_is_shown_without_the_signature_that_knows_it() -> None:
    assert [name for name, line in known_lines().items() if not is_shown(line)] == []


def test_a_recorded_failure_is_a_failure_without_any_signature() -> None:
    wrong, failures = [], 0
    for name, text in texts_of(recorded("logs")).items():
        lines = text.decode().splitlines()
        if any(form_of(line) is not None for line in lines):
            verdict = judge_logs(NO_SIGNATURE, [scan(ALONE, name, [text])])
            wrong += [] if verdict.failed or verdict.survived else [name]
            failures += 1
    assert (wrong, failures > 700) == ([], True)
