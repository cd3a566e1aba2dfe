"""Findings as lines of text."""

from collections.abc import Sequence

from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold

MARKS = {Severity.FAIL: "FAIL", Severity.WARN: "warn", Severity.UNKNOWN: "????", Severity.NOTE: "note"}
INDENT = " " * 6
FIX = f"{INDENT}fix: "


def lines(finding: Finding) -> list[str]:
    """Return a finding as lines: its hosts and text, evidence, and the command that fixes it."""
    return [
        f"{MARKS[finding.severity]}  {fold(finding.hosts)}: {finding.text}  [{finding.check}]",
        *(f"{INDENT}| {line}" for text in finding.evidence for line in text.split("\n")),
        *([f"{FIX}{finding.fix}"] if finding.fix else []),
    ]


def all_lines(findings: Sequence[Finding]) -> list[str]:
    """Return the lines of several findings, in the order given."""
    return [line for finding in findings for line in lines(finding)]
