"""Possible causes, and doubts, by the words of logs."""

import pytest

from pylaunch.features.explain.judgement.alike import with_alike
from pylaunch.features.explain.judgement.classifier import WordClassifier, likely, parse_classifier
from pylaunch.features.explain.judgement.topics import search_of
from pylaunch.features.explain.judgement.verdict import LogVerdict, judge_logs
from pylaunch.features.explain.judgement.word_counts import word_counts
from pylaunch.features.explain.recorded_words import classifier
from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.line import Origin
from pylaunch.verdict.logs.scan import LogScan, scan

CATALOGUE = signatures()
SEARCH = search_of(CATALOGUE)
SMALL = parse_classifier(
    "# a comment\n"
    "* memlock:0 none:10 port-in-use:0 parallel-layout:-20\n"
    "port 2.0 1:-20 2:90\n"
    "taken 2.0 2:60\n"
    "pinned 1.5 0:120\n"
)


def scanned(text: str) -> list[LogScan]:
    return [scan(SEARCH, "x.log", [text.encode()], Origin())]


def verdict_on(text: str, words: WordClassifier = SMALL) -> LogVerdict:
    scans = scanned(text)
    return with_alike(judge_logs(CATALOGUE, scans), scans, words, CATALOGUE)


def test_words_are_those_of_names_without_numbers_and_of_errors_twice() -> None:
    counts = word_counts(scanned("step 12 HTTPServerError_2\nstep 13 HTTPServerError_2\nValueError: 0x7f of rank 3\n"))
    assert counts == {"step": 1, "http": 1, "server": 1, "error": 3, "0": 6, "value": 2, "of": 2, "rank": 2}


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ({"memlock": 0.5, "nofile": 0.3, "nproc": 0.15, "gpu-busy": 0.05}, ("memlock", "nofile", "nproc")),
        (
            {"memlock": 0.3, "nofile": 0.2, "nproc": 0.2, "gpu-busy": 0.2, "none": 0.1},
            ("memlock", "gpu-busy", "nofile"),
        ),
        ({"memlock": 0.14, "nofile": 0.13}, ()),
        ({"none": 0.6, "nofile": 0.4}, ()),
        ({"program-error": 0.29, "nofile": 0.2}, ("nofile",)),
        ({}, ()),
    ],
    ids=[
        "those that are frequent",
        "at most three",
        "like no others",
        "like those of healthy runs",
        "a class that is near to all texts",
        "no words",
    ],
)
def test_named_are(shares: dict[str, float], named: tuple[str, ...]) -> None:
    assert likely(shares) == named


def test_an_error_without_a_known_cause_gets_the_causes_of_such_words() -> None:
    verdict = verdict_on("ZorkError: port taken by zork\n")
    assert verdict.first_error is not None
    assert [each.id for each in verdict.alike] == ["port-in-use"]
    assert verdict_on("ZorkError: zork\n").alike == ()


def test_a_log_without_a_failure_gets_none() -> None:
    assert verdict_on("the port is taken\n").alike == ()


@pytest.mark.parametrize("line", ["port", "port x", "port 1.0 2", "port 1.0 a:2"])
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_classifier(f"* memlock:0\n{line}\n")


def test_the_weights_of_the_package_are_about_classes_of_the_catalogue() -> None:
    words = classifier()
    assert set(words.classes) <= {*CATALOGUE.causes, "none"}
    assert len(words.bias) == len(words.classes)
    assert {at for _, weights in words.words.values() for at, _ in weights} <= set(range(len(words.classes)))


def test_the_weights_of_the_package_know_words_that_no_signature_knows() -> None:
    verdict = verdict_on(
        "ZorkError: port 7000 is held by another process, so the listener cannot bind it\n", classifier()
    )
    assert verdict.first_error is not None
    assert "port-in-use" in [each.id for each in verdict.alike]


def test_a_verdict_that_names_no_cause_gets_the_causes_of_such_words() -> None:
    verdict = verdict_on("port taken\nERROR:torch.distributed.elastic:failed (exitcode: -9) local_rank: 0 (pid: 7)\n")
    assert verdict.first is not None
    assert (verdict.first.cause.id, verdict.abstains) == ("killed", True)
    assert [each.id for each in verdict.alike] == ["port-in-use"]
