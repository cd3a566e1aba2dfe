"""Verdicts on recorded logs: those of public threads with a settled cause, and those of healthy runs."""

from pathlib import Path
from typing import Any

import pytest

from pylaunch.features.explain.judgement.verdict import LogVerdict, judge_logs
from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.line import Origin
from pylaunch.verdict.logs.scan import scan
from tests.features.explain.judgement.recorded import CASES, recorded, texts_of
from tests.features.explain.judgement.verdicts import SEARCH, verdict_on

SETTLED = recorded("logs")
ON_A_GPU = recorded("gpu_logs.toml")
HEALTHY = texts_of(recorded("healthy_logs.toml"))
LEFT = 0.02
"""Share of the recorded logs that may get another verdict: a rule that only one log needs costs more than it gives."""

ENDS = sorted((CASES / "rank_ends").glob("*.txt"))


def is_settled(verdict: LogVerdict, case: dict[str, Any]) -> bool:
    """Return whether `verdict` abstains where it should, and has the settled cause and ranks first elsewhere."""
    if case.get("abstains"):
        is_open = verdict.first is None or verdict.first.ranks == ()
        return is_open and verdict.abstains is not case.get("healthy", False)
    if verdict.first is None or list(verdict.first.ranks) != case.get("ranks", []):
        return False
    return not {each.id for each in (verdict.first.cause, *verdict.first.also)}.isdisjoint(causes(case))


def causes(case: dict[str, Any]) -> tuple[str, ...]:
    return (case["cause"], *case.get("also", ()))


def test_the_settled_cause_is_the_first_verdict_or_one_of_its_several() -> None:
    found = {name: verdict_on(text) for name, text in texts_of(SETTLED).items()}
    others = {name: each.first for name, each in found.items() if not is_settled(each, SETTLED[name])}
    assert len(others) <= LEFT * len(found), others


def test_what_a_program_on_a_gpu_was_written_to_fail_of_is_the_first_verdict() -> None:
    for name, case in ON_A_GPU.items():
        verdict = verdict_on(case["text"])
        first = "" if verdict.first is None else verdict.first.cause.id
        assert verdict.abstains if case.get("abstains") else first in causes(case), name


@pytest.mark.parametrize("file", ENDS, ids=lambda file: file.stem)
def test_ends_of_victims_accuse_no_rank(file: Path) -> None:
    found = judge_logs(signatures(), [scan(SEARCH, "5.err", [file.read_bytes()], Origin("n2", 5))])
    assert found.first is not None
    is_own = "own-exception" in file.stem
    assert (5 in found.first.ranks) == is_own
    assert (found.first.cause.id == "numerics") == is_own
    assert found.first.cause.id != "program-error"


def test_a_healthy_log_has_no_cause() -> None:
    for name, text in HEALTHY.items():
        verdict = verdict_on(text)
        evidence = [(cause.cause.id, cause.evidence) for cause in verdict.causes]
        assert (evidence, verdict.first_error, verdict.failed) == ([], None, False), name


def test_healthy_logs_of_all_ranks_together_have_no_cause() -> None:
    assert len(HEALTHY) >= 60
    assert verdict_on(*HEALTHY.values()).first is None


def test_a_text_yields_to_the_one_of_which_it_is_a_consequence() -> None:
    credential = "[2026-05-12T09:41:07] error: Munge decode failed: Expired credential\n"
    silent = "srun: error: Unable to contact slurm controller (connect failure)\n"
    both = verdict_on(silent + credential)
    alone = verdict_on(silent)
    assert [cause.cause.id for cause in both.causes] == ["slurm-credential"]
    informs = f"INFO: of the job before: {credential}"
    informed = verdict_on(silent, informs)
    for verdict in (alone, informed):
        assert verdict.first is not None
        assert verdict.first.cause.id == "slurm-node"
    assert informed.first == alone.first, "a text that only informs is no cause"


def test_an_exception_that_a_process_survived_until_a_signal_is_not_the_first_error() -> None:
    survived = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nOrbitError: no plan\n'
    end = "srun: error: n2: task 0: Segmentation fault (core dumped)\n"
    verdict = verdict_on(survived + end)
    assert verdict.abstains
    assert verdict.first_error is None


GAI = (
    "[W1112 10:00:00.000 socket.cpp:759] [c10d] The IPv6 network addresses of (node-0, 29500) cannot be retrieved "
    "(gai error: -3 - Temporary failure in name resolution).\n"
)


@pytest.mark.parametrize("text", [GAI, GAI * 2, "n1:7:7 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n" + GAI])
def test_lines_of_torch_about_a_name_that_it_asks_for_again_are_no_failure_alone(text: str) -> None:
    verdict = verdict_on(text)
    assert [cause.cause.id for cause in verdict.causes] == []
