"""The explanation of a run says nothing that its record contradicts, and shows the hang that it had."""

from typing import cast

import pytest

from pylaunch.features.explain.judgement.verdict import LogVerdict
from pylaunch.features.explain.view import as_data, show
from pylaunch.features.explain.work import LogExplanation
from pylaunch.model.diagnosis.cause import FailureCause, Named
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.store.content import signatures
from pylaunch.verdict.logs.judgement import LogCause
from tests import json_pages
from tests.features.explain.judgement.verdicts import verdict_on
from tests.unit.terminal.views.test_live import PLAN

HANG = Event(2.0, EventKind.HANG, text="hang: ranks 0,2 wait in all_reduce #6", lines=("rank 1 on n2: in load",))


def shown(capsys: pytest.CaptureFixture[str], status: Status, *events: Event) -> list[str]:
    outcome = Outcome(status, "the reason", 3.0, (), {}, evidence=("n1: no route",))
    record = RunRecord(PLAN, "v", 1.0, events, outcome)
    show(LogExplanation(LogVerdict((), (), failed=False), 1, 0, 0, (), record), verbose=False)
    return capsys.readouterr().out.splitlines()


def test_a_failed_run_without_a_known_text_is_not_called_a_run_without_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = shown(capsys, Status.FAILED)[-1]
    assert found.startswith("no text of a known cause found in 1 log (0 lines, 0.0 MB): no known text, no line")
    refused = shown(capsys, Status.REFUSED)
    assert refused[1:] == ["  n1: no route"], "no rank was started, so there are no logs to speak of"
    assert shown(capsys, Status.DONE)[-1].startswith("no failure found in 1 log (0 lines, 0.0 MB): no known text")


def test_the_logs_of_a_run_that_has_not_ended_are_those_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    record = RunRecord(PLAN, "v", 1.0, (), None)
    show(LogExplanation(LogVerdict((), (), failed=False), 1, 0, 0, (), record), verbose=False)
    printed = capsys.readouterr()
    assert printed.out.startswith(f"run {PLAN.run} is not known to have ended; its logs so far:\nno failure found")
    assert printed.err == f"hint: if it hangs there: pylaunch stacks {PLAN.run}\n"


def test_a_run_that_was_stopped_in_a_hang_shows_the_hang(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, Status.STOPPED, HANG)
    assert lines[-1].startswith("no text of a known cause found")
    assert lines[1:3] == ["before it ended: hang: ranks 0,2 wait in all_reduce #6", "  rank 1 on n2: in load"]


@pytest.mark.parametrize(
    ("recorded", "named", "read", "is_one"),
    [
        (Confidence.HIGH, Named("n2", 1), Named("n2", 1), True),
        (Confidence.MEDIUM, None, None, True),
        (Confidence.LOW, Named("n2", 1), None, False),
    ],
    ids=["the rank of the record", "alike on all ranks", "a record that is not sure"],
)
def test_one_failure_has_one_confidence_that_of_its_record(
    capsys: pytest.CaptureFixture[str],
    recorded: Confidence,
    named: Named | None,
    read: Named | None,
    *,
    is_one: bool,
) -> None:
    known = signatures().causes["program-error"]
    cause = FailureCause(known.kind, "ValueError: x", recorded, named, text_class=known.id)
    outcome = Outcome(Status.FAILED, "the reason", 3.0, (), {}, named=named, causes=(cause,))
    found = LogCause(known, "exception", "ValueError: x", Confidence.MEDIUM, (), None, ())
    record = RunRecord(PLAN, "v", 1.0, (), outcome)
    show(LogExplanation(LogVerdict((found,), (), failed=True), 1, 0, 0, (), record, read), verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert f"by the record of all nodes, {recorded.value} confidence: rank-failed/program-error: ValueError: x" in lines
    assert ("its text: rank-failed/program-error: ValueError: x" in lines) is is_one
    assert ("rank-failed/program-error: ValueError: x (medium confidence)" in lines) is not is_one


DEADLINE = (
    b'Traceback (most recent call last):\n  File "/app/train.py", line 40, in main\n'
    b"jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Deadline Exceeded\n\nAdditional GRPC error information from"
    b" remote target coordination_service while calling /xla.coordination.CoordinationService/RegisterTask:\n"
)


def test_a_text_with_several_causes_names_them_together_with_the_question_of_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    verdict = verdict_on(DEADLINE)
    explained = LogExplanation(verdict, 1, 6, len(DEADLINE), ())
    show(explained, verbose=False)
    lines = capsys.readouterr().out.splitlines()
    names = ("start-failed/coordinator-unreachable", "start-failed/launch-skew", "path-blocked/firewall-port")
    assert lines[0].startswith(f"several causes: {' or '.join(names)}: A process could not register")
    for name in names:
        cause = signatures().causes[name.partition("/")[2]]
        assert f"  {name}: {cause.title}. {cause.sure} {cause.check}" in lines
    first = cast("list[dict[str, object]]", as_data(explained)["causes"])[0]
    assert first["also"] == ["launch-skew", "firewall-port"]


def test_a_cause_of_low_confidence_is_a_possibility(capsys: pytest.CaptureFixture[str]) -> None:
    log = b"FileExistsError: [Errno 17] File exists: '/mnt/out/epoch_0'\n"
    verdict = verdict_on(log)
    show(LogExplanation(verdict, 1, 1, len(log), ()), verbose=False)
    out = capsys.readouterr()
    assert out.out.startswith("possible: rank-failed/shared-cache-race: ")
    assert out.err == f"hint: {signatures().causes['shared-cache-race'].check}\n"


def test_a_cause_that_is_named_alone_says_why_the_next_one_is_not_it(capsys: pytest.CaptureFixture[str]) -> None:
    warned = b"[W socket.cpp:601] [c10d] The client socket has failed to connect to [n1]:29411 (errno: 113 - No route)."
    log = warned + b"\nstep 1 loss 2\nstep 2 loss 2\nOSError: [Errno 28] No space left on device: '/scratch/1'\n"
    for text, shown_next in ((log, True), (log.partition(b"\n")[2], False)):
        show(LogExplanation(verdict_on(text), 1, 4, len(text), ()), verbose=False)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("storage/storage-full: ")
        found = [line for line in lines if line.startswith("  not ")]
        assert (
            found
            == ["  not path-blocked/firewall-port (x0.log:1): the run made progress: its start succeeded"] * shown_next
        )


def test_the_json_page_has_each_field_and_no_other_and_an_unknown_error_has_its_next_step() -> None:
    log = b"ERROR something broke with the loader\n"
    found = as_data(LogExplanation(verdict_on(log), 1, 1, len(log), ()))
    error = cast("dict[str, str]", found["first_error"])
    assert error["question"]
    assert error["check"]
    described = json_pages.described("pylaunch explain")
    assert {path.partition(".")[0].partition("[")[0] for path in described} == found.keys()
    assert {path.partition(".")[2] for path in described if path.startswith("first_error.")} == error.keys()
