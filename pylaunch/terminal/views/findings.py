"""Findings as lines and as JSON, for `check` and `start`."""

import sys
import textwrap
from collections.abc import Sequence

from pylaunch.base.dataclass import replace
from pylaunch.checks import check
from pylaunch.checks.suite import Result
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.terminal import console, document, hints


def lines(finding: Finding) -> list[str]:
    """Return a finding as lines, its fix as a command that works when it is pasted."""
    return check.lines(replace(finding, fix=hints.completed(finding.fix)) if finding.fix else finding)


def completed(line: str) -> str:
    """Return a line of a finding, its fix as a command that works when it is pasted."""
    return hints.completed(line) if line.startswith(check.FIX) else line


def show(findings: Sequence[Finding]) -> None:
    """Print findings to stdout, on a terminal with their sentences wrapped at words; a command stays in one piece."""
    width = console.width_of(sys.stdout) if console.is_terminal(sys.stdout) else 0
    for finding in findings:
        sentence, *more = lines(finding)
        for line in (*_wrapped(sentence, width), *more):
            console.data(line)


def _wrapped(line: str, width: int) -> list[str]:
    """Return the lines of `line` in `width` columns; 0 is no limit."""
    if len(line) <= width or not width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent=check.INDENT, break_long_words=False, break_on_hyphens=False)


def summary(found: Result) -> str:
    """The last line: "35 checks on 16 hosts in 1.9 s: 1 fail, 2 warnings, 1 could not be measured"."""
    parts = [
        count
        for severity, one, many in (
            (Severity.FAIL, "fail", "fail"),
            (Severity.WARN, "warning", "warnings"),
            (Severity.UNKNOWN, "could not be measured", "could not be measured"),
            (Severity.NOTE, "note", "notes"),
        )
        if (count := _counted(found.count(severity), one, many))
    ]
    asked = _counted(len(found.checks), "check", "checks") or "no check"
    hosts = _counted(len(found.hosts), "host", "hosts") or "no host"
    silent = f"; not looked at: {fold(found.unreachable)}" if found.unreachable else ""
    return f"{asked} on {hosts} in {found.seconds:.1f} s: {', '.join(parts) or 'nothing found'}{silent}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}" if count else ""


def as_json(found: Result) -> dict[str, object]:
    """The result for `--json`."""
    return {
        "hosts": document.hosts(found.hosts, found.unreachable, {}),
        "checks": list(found.checks),
        "not_looked_at": [{"check": check, "hosts": list(hosts)} for check, hosts in found.not_looked_at.items()],
        "seconds": round(found.seconds, 3),
        "failed": found.failed,
        "findings": [
            {
                "check": each.check,
                "severity": each.severity.name.lower(),
                "hosts": list(each.hosts),
                "text": each.text,
                "fix": hints.completed(each.fix) or None,
                "role": each.role or None,
                "evidence": list(each.evidence),
            }
            for each in found.findings
        ],
    }
