"""The first error is found by its form alone, in logs of programs that no signature knows."""

from pylaunch.base.dataclass import replace
from pylaunch.features.explain.judgement.error_form import ErrorWeight, error_weight, search_of
from pylaunch.features.explain.judgement.ranker import weights
from pylaunch.features.explain.judgement.verdict import judge_logs
from pylaunch.store.content import signature_sources, signatures
from pylaunch.verdict.logs.line import LinePrefixes, Origin
from pylaunch.verdict.logs.scan import scan
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import continues
from tests.features.explain.judgement.recorded import CASES, recorded, texts_of

CATALOGUE = signatures()
NO_SIGNATURE = replace(CATALOGUE, signatures={})
ALONE = search_of(NO_SIGNATURE)


def form_of(line: str) -> ErrorWeight | None:
    return error_weight(LinePrefixes().parse(line, Origin()).text)


def known_lines() -> dict[str, str]:
    """The lines with the form of an error that a signature knows as a failure, and those of the recorded logs.

    Not those with words of a program that continues: alone, they are no failure.
    """
    failures = (Role.ROOT, Role.SYMPTOM, Role.WRAPPER)
    found = {
        f"example of {each.id}": signature_sources()[each.id].example
        for each in CATALOGUE.signatures.values()
        if each.role in failures
    }
    texts = texts_of(recorded("logs")) | {file.stem: file.read_bytes() for file in (CASES / "rank_ends").glob("*.txt")}
    for name, text in texts.items():
        for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
            found[f"{name}:{number}"] = line
    return {name: line for name, line in found.items() if form_of(line) is not None and not continues(line)}


def test_most_failures_that_a_signature_knows_have_the_form_of_an_error() -> None:
    known = [each for each in CATALOGUE.signatures.values() if each.role in (Role.ROOT, Role.SYMPTOM, Role.WRAPPER)]
    formless = [each.id for each in known if form_of(signature_sources()[each.id].example) is None]
    assert len(formless) <= len(known) // 15, formless


def is_shown(line: str) -> bool:
    """Return whether an explanation has the second line as its evidence."""
    log = f"reading the configuration\n{line}\n"
    verdict = judge_logs(NO_SIGNATURE, [scan(ALONE, "x.log", [log.encode()], Origin())], weights())
    lines = [] if verdict.first_error is None else [verdict.first_error.evidence]
    lines += [each for cause in verdict.causes for each in cause.evidence]
    return verdict.failed and any(each.line == 2 for each in lines)


def test_a_line_with_the_form_of_an_error_is_shown_without_the_signature_that_knows_it() -> None:
    assert [name for name, line in known_lines().items() if not is_shown(line)] == []


def test_a_recorded_failure_is_a_failure_without_any_signature() -> None:
    wrong, failures = [], 0
    for name, text in texts_of(recorded("logs")).items():
        lines = text.decode().splitlines()
        if any(form_of(line) is not None for line in lines):
            verdict = judge_logs(NO_SIGNATURE, [scan(ALONE, name, [text])], weights())
            wrong += [] if verdict.failed or verdict.survived else [name]
            failures += 1
    assert (wrong, failures > 700) == ([], True)
