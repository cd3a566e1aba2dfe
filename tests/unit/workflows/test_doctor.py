"""Layers that the trial of `pylaunch doctor` proves, from the lines of its ranks and its outcome."""

from __future__ import annotations

import pytest

from pylaunch.errors import InventoryError
from pylaunch.model.cluster import Cluster
from pylaunch.model.outcome import Named, Outcome, RankEnd, Status
from pylaunch.preflight.start_layers import LayerResult, LayerState, StartLayer
from pylaunch.runtime import communication_test as trial
from pylaunch.workflows.doctor import _LayerWalk, diagnose
from pylaunch.workflows.run_events import LinesWritten

DONE = Outcome(Status.DONE, "every rank exited with code 0", 9.0, (), {})
END = RankEnd(1, "n2", 1, None, 8.0, stopped=False, last_lines=("OSError: libcudart",))
FAILED = Outcome(
    Status.FAILED, "rank 1 on n2 exited with code 1", 9.0, (END,), {}, first_failure=END, named=Named("n2", 1)
)
BOTH = ("0.out", "1.out")
IMPORTED, SUMMED = f"{trial.IMPORT} torch 2.13.0", f"{trial.ALL_REDUCE} torch 3"


def states(outcome: Outcome, reported: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """States of the layers of the trial after ranks (by stream) printed these stages."""
    walk = _LayerWalk(None, hosts=("n1", "n2"))
    for stage, streams in reported.items():
        for stream in streams:
            walk._take(LinesWritten("n1", stream, f"noise\n{trial.STAGE} {stage}\n", 1.0))
    return {result.layer.value: result.state.value for result in walk._stages(outcome)}


@pytest.mark.parametrize(
    ("outcome", "reported", "expected"),
    [
        (DONE, {trial.BARRIER: BOTH, IMPORTED: BOTH, SUMMED: BOTH}, "ok ok ok"),
        (DONE, {trial.BARRIER: BOTH, trial.NO_FRAMEWORK: BOTH}, "ok skipped skipped"),
        (FAILED, {trial.BARRIER: ("0.out",)}, "broken"),
        (FAILED, {}, "broken"),
        (FAILED, {trial.BARRIER: BOTH, IMPORTED: ("0.out",)}, "ok broken"),
        (FAILED, {trial.BARRIER: BOTH, trial.NO_FRAMEWORK: ("0.out",)}, "ok broken"),
        (FAILED, {trial.BARRIER: BOTH, IMPORTED: BOTH}, "ok ok broken"),
        (FAILED, {trial.BARRIER: BOTH, IMPORTED: BOTH, SUMMED: BOTH}, "ok ok broken"),
        (DONE, {trial.BARRIER: BOTH, IMPORTED: BOTH}, "ok ok skipped"),
    ],
)
def test_a_layer_is_ok_only_if_every_rank_reported_it(
    outcome: Outcome, reported: dict[str, tuple[str, ...]], expected: str
) -> None:
    assert " ".join(states(outcome, reported).values()) == expected


def test_a_broken_stage_has_the_host_the_last_lines_and_a_command() -> None:
    walk = _LayerWalk(None, hosts=("n1", "n2"), trial_run="7f3a")
    (result,) = walk._stages(FAILED)
    assert (result.hosts, result.evidence, result.hints) == (("n2",), ("OSError: libcudart",), ("pylaunch logs 7f3a",))


def test_everything_after_a_broken_layer_is_skipped() -> None:
    def unreadable() -> Cluster:
        raise InventoryError("2 errors in the inventory", evidence=["cluster.ini:3: gpus"], hint="correct it")

    printed: list[LayerResult] = []
    found = diagnose(unreadable, on_result=printed.append)
    assert found.results == tuple(printed)
    assert [result.layer for result in found.results] == list(StartLayer)
    assert found.broken is not None
    assert (found.broken.layer, found.broken.hints) == (StartLayer.INVENTORY, ("correct it",))
    assert {result.state for result in found.results[1:]} == {LayerState.SKIPPED}
    assert found.results[-1].text == "needs the layer inventory"
