"""The ends of the logs of a run are kept within a bound; what a run survived is no cause."""

import pytest

from pylaunch.features.explain import work
from pylaunch.features.explain.judgement.error_form import search_of
from pylaunch.features.explain.view import show
from pylaunch.features.explain.work import _Tails, explain_run
from pylaunch.model.diagnosis.cause import FailureCause, Named
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import RunRecord
from pylaunch.runs.events import Emitter, LinesWritten
from pylaunch.runs.logs import LogQuery
from pylaunch.store.content import signatures
from tests.unit.terminal.views.test_live import PLAN


def test_of_a_long_log_the_end_is_kept() -> None:
    tails = _Tails(lambda _: None, 1000)
    for number in range(5000):
        tails.take(LinesWritten("n1", "3.err", f"line {number}\n", 0.0))
    tails.take(LinesWritten("n1", "3.err", "ModuleNotFoundError: No module named 'flash_attn'\n", 0.0))
    [found] = tails.scans(search_of(signatures()))
    assert found.size <= 1000
    assert (found.origin.host, found.origin.rank) == ("n1", 3)
    assert [match.line for match in found.matches] == [found.lines]


@pytest.mark.parametrize(
    "text",
    [
        "waiting for checkpoint from remote storage slow disk bandwidth nfs\nERROR something broke with the loader\n",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
    ],
)
def test_the_texts_of_a_run_that_ended_well_have_no_cause_and_no_next_step(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(work, "read_logs", lambda *given: given[2](LinesWritten("n1", "0.out", text, 0.0)))
    record = RunRecord(PLAN, "v", 1.0, (), Outcome(Status.DONE, "every rank exited with code 0", 3.0, (), {}))
    explained = explain_run(record, lambda _: None)
    show(explained, verbose=False)
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1:3] == [
        f"no failure found in 1 log ({text.count(chr(10))} lines, 0.0 MB)",
        "  1 line has the form of an error, and the run ended well after; the last is",
    ]
    assert "possible" not in printed.out
    assert not printed.err
    assert not explained.verdict.failed


@pytest.mark.parametrize("confidence", [Confidence.HIGH, Confidence.LOW])
def test_the_words_of_a_rank_that_the_record_names_say_what_failed_and_those_of_its_victims_do_not(
    confidence: Confidence, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "0.err": "RuntimeError: Connection closed by peer. This is caused by a remote worker crashing. Check logs\n",
        "1.err": "ShardError: disk quota of volume scratch exceeded, shard cannot be written\n",
    }

    def sent(_: RunRecord, query: LogQuery, emit: Emitter, *__: object) -> None:
        for stream in texts.keys() & {*query.streams}:
            emit(LinesWritten("gpu02", stream, texts[stream], 0.0))

    monkeypatch.setattr(work, "read_logs", sent)
    named = Named("gpu02", 1)
    cause = FailureCause("rank-failed", "ShardError", confidence, named)
    outcome = Outcome(Status.FAILED, "ShardError", 3.0, (), {}, named=named, causes=(cause,))
    explained = explain_run(RunRecord(PLAN, "v", 1.0, (), outcome), lambda _: None)
    is_sure = confidence is Confidence.HIGH
    assert (explained.files, explained.named) == ((1, named) if is_sure else (2, None))
    assert explained.verdict.suggestions[0].cause == "storage-full"
    show(explained, verbose=False)
    assert ("its text is not known to pylaunch: ShardError: disk quota" in capsys.readouterr().out) is is_sure
