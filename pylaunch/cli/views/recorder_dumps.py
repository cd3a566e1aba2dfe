"""Findings on flight recorder dumps that were collected by hand."""

from __future__ import annotations

from pylaunch.model.hang import HangFinding
from pylaunch.model.hostset import fold_ranks
from pylaunch.terminal import console
from pylaunch.workflows.recorder_dumps import DumpsJudged


def show(judged: DumpsJudged) -> None:
    """Print the findings, the best one with its evidence."""
    for name, why in judged.refused.items():
        console.say(f"{name}: skipped: {why}")
    if judged.absent:
        console.say(f"no dump of ranks {fold_ranks(judged.absent)}")
    best = judged.findings[0]
    console.data(f"{best.text} ({best.confidence.value} confidence)")
    for line in best.evidence:
        console.data(f"  {line}")
    if best.changed_by:
        console.data(f"  would change this: {best.changed_by}")
    for finding in judged.findings[1:]:
        console.data(f"also: {finding.text} ({finding.confidence.value} confidence)")


def content(judged: DumpsJudged) -> dict[str, object]:
    """Return the fields of the document of `stacks --dumps --json`."""
    return {
        "dumps": list(judged.ranks),
        "absent": list(judged.absent),
        "findings": [_finding(finding) for finding in judged.findings],
    }


def _finding(finding: HangFinding) -> dict[str, object]:
    return {
        "kind": finding.kind.value,
        "text": finding.text,
        "confidence": finding.confidence.value,
        "ranks": list(finding.ranks),
        "evidence": list(finding.evidence),
        "changed_by": finding.changed_by or None,
    }
