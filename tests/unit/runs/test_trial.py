"""Layers that the trial of `pylaunch check` proves, from the lines of its ranks and its outcome."""

import pytest

from pylaunch.model.outcome import Named, Outcome, Status
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runs.events import LinesWritten
from pylaunch.runs.trial import Trial, TrialLayer
from pylaunch.runtime import communication_test as trial

DONE = Outcome(Status.DONE, "every rank exited with code 0", 9.0, (), {})
END = RankEnd(1, "n2", 1, None, 8.0, stopped=False, last_lines=("OSError: libcudart",))
FAILED = Outcome(
    Status.FAILED, "rank 1 on n2 exited with code 1", 9.0, (END,), {}, first_failure=END, named=Named("n2", 1)
)
UNNAMED = Outcome(Status.FAILED, "no rank is named", 9.0, (), {})
BOTH = ("n1", "n2")
IMPORTED, SUMMED = f"{trial.IMPORT} torch 2.13.0", f"{trial.ALL_REDUCE} torch 3"


def after(outcome: Outcome, reported: dict[str, tuple[str, ...]]) -> list[TrialLayer]:
    """Layers of the trial after the ranks of these hosts printed these stages."""
    job = Trial(("n1", "n2"), run="7f3a", python="/env/bin/python")
    for stage, hosts in reported.items():
        for host in hosts:
            job.take(LinesWritten(host, f"{BOTH.index(host)}.out", f"noise\n{trial.STAGE} {stage}\n", 1.0))
    return list(job.judged(outcome))


@pytest.mark.parametrize(
    ("outcome", "reported", "expected"),
    [
        (DONE, {trial.BARRIER: BOTH, IMPORTED: BOTH, SUMMED: BOTH}, "ok ok ok"),
        (DONE, {trial.BARRIER: BOTH, trial.NO_FRAMEWORK: BOTH}, "ok skipped skipped"),
        (FAILED, {trial.BARRIER: ("n1",)}, "broken"),
        (FAILED, {trial.BARRIER: ("n2",)}, "ok broken"),  # n1 was stopped before it printed the line.
        (FAILED, {}, "broken"),
        (FAILED, {trial.BARRIER: BOTH, IMPORTED: ("n1",)}, "ok broken"),
        (FAILED, {trial.BARRIER: BOTH, trial.NO_FRAMEWORK: ("n1",)}, "ok broken"),
        (FAILED, {trial.BARRIER: BOTH, IMPORTED: BOTH}, "ok ok broken"),
        (FAILED, {trial.BARRIER: BOTH, IMPORTED: BOTH, SUMMED: BOTH}, "ok ok broken"),
        (DONE, {trial.BARRIER: BOTH, IMPORTED: BOTH}, "ok ok skipped"),
    ],
)
def test_a_layer_is_ok_only_if_every_rank_reported_it(
    outcome: Outcome, reported: dict[str, tuple[str, ...]], expected: str
) -> None:
    assert " ".join(result.state.value for result in after(outcome, reported)) == expected


def test_a_broken_stage_has_the_host_the_last_lines_and_a_command() -> None:
    (result,) = after(FAILED, {})
    assert (result.hosts, result.evidence) == (("n2",), ("OSError: libcudart",))
    assert result.hints == ("output of all ranks: pylaunch logs 7f3a",)


def test_a_host_that_alone_imported_nothing_is_named_and_one_that_alone_summed_nothing_is_not() -> None:
    result = after(UNNAMED, {trial.BARRIER: BOTH, IMPORTED: ("n1",)})[-1]
    assert (result.hosts, result.evidence) == (("n2",), ("reported by n1, not by n2",))
    assert result.hints[0] == "repeat it on n2: /env/bin/python -c 'import torch'"
    result = after(UNNAMED, {trial.BARRIER: BOTH, IMPORTED: BOTH, SUMMED: ("n1",)})[-1]
    assert (result.hosts, result.evidence) == ((), ("reported by n1, not by n2",))
