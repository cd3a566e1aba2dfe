"""Verdicts on recorded logs: those that document a behaviour, the ends of victims, and those of healthy runs."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pylaunch.features.explain.judgement.verdict import LogVerdict
from pylaunch.verdict.logs.line import Origin
from tests.features.explain.judgement.recorded import CASES, recorded, texts_of
from tests.features.explain.judgement.verdicts import scanned, verdict_of, verdict_on

SETTLED = recorded("logs")
HEALTHY = texts_of(recorded("healthy_logs.toml"))
DOCUMENTED = tomllib.loads((CASES / "documented_logs.toml").read_text(encoding="utf-8"))
ENDS = sorted((CASES / "rank_ends").glob("*.txt"))


def is_settled(verdict: LogVerdict, case: dict[str, Any]) -> bool:
    """Return whether `verdict` abstains where it should, and shows the settled cause and ranks elsewhere."""
    first = verdict.first
    if case.get("abstains"):
        return verdict.abstains and (first is None or first.ranks == ())
    if list(() if first is None else first.ranks) != case.get("ranks", []):
        return False
    shown = {each.cause for each in verdict.suggestions}
    shown |= set() if first is None else {each.id for each in (first.cause, *first.also)}
    return not shown.isdisjoint((case["cause"], *case.get("also", ())))


@pytest.mark.parametrize("behaviour", DOCUMENTED)
def test_documented_logs_get_the_recorded_verdict(behaviour: str) -> None:
    logs = DOCUMENTED[behaviour]
    found = {name: verdict_on(str(SETTLED[name]["text"])) for name in logs}
    assert {name: each.first for name, each in found.items() if not is_settled(each, SETTLED[name])} == {}


@pytest.mark.parametrize("file", ENDS, ids=lambda file: file.stem)
def test_ends_of_victims_accuse_no_rank(file: Path) -> None:
    found = verdict_of([scanned(file.read_bytes(), "5.err", Origin("n2", 5))])
    assert found.first is not None
    is_own = "own-exception" in file.stem
    assert (5 in found.first.ranks) == is_own
    assert "program-error" not in {found.first.cause.id, *(each.cause for each in found.suggestions[:1])}


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


def test_the_log_of_the_page_about_the_engine_is_followed_as_the_page_says() -> None:
    page = (CASES.parents[1] / "docs/contributing/explain.md").read_text(encoding="utf-8")
    log = "".join(f"{line[4:]}\n" for line in page.split("\n\n") if "[rank1]:[W" in line for line in line.split("\n"))
    verdict = verdict_on(log)
    assert verdict.first is not None
    assert verdict.first_error is not None
    assert (verdict.first.ranks, verdict.first_error.evidence.line) == ((1,), 8)
    assert {each.cause for each in verdict.rejected} >= {"dns-hosts", "peer-lost"}
    assert {"program-error", "storage-full"} <= {each.cause for each in verdict.suggestions}
