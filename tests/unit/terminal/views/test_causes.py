"""Causes as lines at the end of a run."""

import pytest

from pylaunch.model.outcome import Outcome, Status
from pylaunch.store.content import signatures
from pylaunch.terminal.views.outcome import show_outcome
from pylaunch.verdict.recognised_ends import with_classes
from pylaunch.verdict.verdict import judge
from tests.unit.terminal.views.test_live import PLAN
from tests.unit.verdict.evidence_sets import SETS


def shown(name: str, capsys: pytest.CaptureFixture[str], *, verbose: bool = False) -> list[str]:
    """Return the lines that show the verdict on an evidence set."""
    case = next(each for each in SETS if each.name == name)
    found = judge(case.evidence)
    assert found is not None
    outcome = Outcome(
        Status.FAILED, found.reason, 110.0, case.ends, {}, (), found.shown, found.named, causes=found.causes,
        rejected=found.rejected, hosts=case.hosts,
    )  # fmt: skip
    show_outcome(PLAN, with_classes(outcome, signatures()), verbose=verbose)
    return capsys.readouterr().err.splitlines()


def test_a_cause_in_a_host_is_the_error_with_its_evidence_and_the_next_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown("one host is cut off", capsys)
    assert lines[0].endswith(": n2 is cut off from n[1,3]; rank 0 on n1 timed out waiting for other ranks")
    at = lines.index("evidence (medium confidence: path-blocked):")
    text = "65536 bytes to n2 port 41000 are not acknowledged after 5 retransmissions"
    assert lines[at + 1] == f"  rank 0 on n1 port 40000: {text}"
    assert lines[-1].strip() == "pylaunch check --only network.ports --limit 'n[1-3]'"
    assert not any(line.startswith("rejected:") for line in lines)


def test_the_class_of_a_text_is_shown_with_its_page_and_its_question(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown("GPU error that the rank reports", capsys)
    assert any(line.endswith(": gpu/gpu-hardware):") for line in lines)
    assert f"to be sure: {signatures().causes['gpu-hardware'].sure}" in lines
    assert "see: pylaunch help errors-gpu" in lines


def test_rejected_causes_are_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown("GPU lost after the failure", capsys, verbose=True)
    assert sum(line.startswith("rejected: rank ") for line in lines) == 3
    assert any(line.startswith("rejected: n2: NVRM: Xid") and "8.0 s after" in line for line in lines)


def test_a_cause_that_is_only_possible_is_shown_below_an_error_that_names_nobody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown("versions differ", capsys)
    assert lines[0].endswith("no rank is named: rank 0 on n1 timed out waiting for other ranks")
    assert any(line.startswith("low confidence: nodes differed at the start: n2: nccl: 2.28") for line in lines)
