"""Causes that the words of a log suggest: up to three, and one alone where its share is large."""

import pytest

from pylaunch.features.explain.judgement.ranker import ALONE, WordWeights, likely, parse_weights, weights, word_counts
from pylaunch.features.explain.judgement.verdict import LogVerdict, judge_logs
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.store.content import signatures
from tests.features.explain.judgement.verdicts import scanned

SMALL = parse_weights(
    "# a comment\n"
    "* memlock:0 none:10 port-in-use:0 parallel-layout:-20\n"
    "port 2.0 1:-20 2:10\n"
    "taken 2.0 2:60\n"
    "pinned 1.5 0:120\n"
)


def verdict_on(text: str, words: WordWeights = SMALL) -> LogVerdict:
    return judge_logs(signatures(), [scanned(text)], words)


def test_words_are_those_of_names_without_numbers_and_of_errors_twice() -> None:
    text = "step 12 HTTPServerError_2\nstep 13 HTTPServerError_2\nValueError: 0x7f of rank 3\n"
    counts = word_counts([scanned(text)])
    assert counts == {"step": 1, "http": 1, "server": 1, "error": 3, "0": 6, "value": 2, "of": 2, "rank": 2}


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ({"memlock": 0.5, "nofile": 0.3, "nproc": 0.15, "gpu-busy": 0.05}, ("memlock", "nofile", "nproc")),
        ({"memlock": 0.3, "nofile": 0.2, "nproc": 0.02, "none": 0.48}, ("memlock", "nofile")),
        ({"memlock": 0.04, "nofile": 0.03}, ()),
        ({}, ()),
    ],
    ids=["at most three", "those that are frequent", "like no others", "no words"],
)
def test_named_are(shares: dict[str, float], named: tuple[str, ...]) -> None:
    assert likely(shares) == named


def test_an_error_without_a_known_cause_gets_the_causes_of_such_words_with_the_line_that_shows_them() -> None:
    verdict = verdict_on("zork begins\nZorkError: port zork\n")
    assert verdict.first_error is not None
    first = verdict.suggestions[0]
    assert (first.cause, first.evidence.line, first.words) == ("port-in-use", 2, ("port",))
    assert first.share < ALONE


def test_a_class_with_a_large_share_is_named_alone_with_medium_confidence_and_names_no_rank() -> None:
    verdict = verdict_on("[rank3]: all ports are taken: zork failed\n[rank3]: FATAL zork: port taken\n")
    assert verdict.first is not None
    assert (verdict.first.cause.id, verdict.first.confidence) == ("port-in-use", Confidence.MEDIUM)
    assert (verdict.first.ranks, verdict.first.signature) == ((), "words")
    assert verdict.first.because.startswith("the words taken, port in line 2: ")


def test_the_words_say_what_failed_and_the_traceback_who() -> None:
    traceback = 'Traceback (most recent call last):\n  File "/app/t.py", line 3, in f\nZorkError: port taken\n'
    verdict = verdict_on("".join(f"[rank3]: {line}\n" for line in traceback.splitlines()))
    assert verdict.first is not None
    assert (verdict.first.cause.id, verdict.first.ranks) == ("port-in-use", (3,))


@pytest.mark.parametrize(
    "text", ["a\nb\nthe port is taken\n", "port taken\nConnectionResetError: [Errno 104] Connection reset by peer\n"]
)
def test_a_log_without_a_failure_or_with_victims_alone_gets_none(text: str) -> None:
    verdict = verdict_on(text)
    assert verdict.suggestions == ()
    assert verdict.first is None or verdict.first.cause.id == "peer-lost"


def test_one_line_of_a_log_without_the_form_of_an_error_gets_the_causes_of_such_words() -> None:
    verdict = verdict_on("the port is taken\n")
    assert (verdict.failed, verdict.causes, verdict.suggestions[0].cause) == (False, (), "port-in-use")


@pytest.mark.parametrize(
    ("words", "confidence"), [("port taken", Confidence.HIGH), ("pinned pages", Confidence.MEDIUM)]
)
def test_a_known_text_is_sure_where_the_words_of_the_log_agree(words: str, confidence: Confidence) -> None:
    verdict = verdict_on(f"{words}\nOSError: [Errno 98] Address already in use\n")
    assert verdict.first is not None
    assert (verdict.first.cause.id, verdict.first.confidence) == ("port-in-use", confidence)


def test_a_verdict_that_names_no_cause_gets_the_causes_of_such_words() -> None:
    verdict = verdict_on("port taken\nERROR:torch.distributed.elastic:failed (exitcode: -9) local_rank: 0 (pid: 7)\n")
    assert verdict.first is not None
    assert (verdict.first.cause.id, verdict.abstains) == ("killed", True)
    assert verdict.suggestions[0].cause == "port-in-use"


@pytest.mark.parametrize("line", ["port", "port x", "port 1.0 2", "port 1.0 a:2"])
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_weights(f"* memlock:0\n{line}\n")


def test_the_weights_of_the_package_are_about_classes_of_the_catalogue() -> None:
    words = weights()
    assert set(words.classes) <= {*signatures().causes, "none"}
    assert len(words.bias) == len(words.classes)
    assert {at for _, known in words.words.values() for at, _ in known} <= set(range(len(words.classes)))


def test_the_weights_of_the_package_know_words_that_no_signature_knows() -> None:
    verdict = verdict_on("ZorkError: port 7000 is held by another process, so the listener cannot bind it\n", weights())
    shown = [each.cause for each in verdict.suggestions] + [each.cause.id for each in verdict.causes]
    assert "port-in-use" in shown
