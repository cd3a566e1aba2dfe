"""Findings about variables as a person reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pylaunch.cli import console
from pylaunch.model.variables.files import read_environment_file, read_nccl_conf, settings_of
from pylaunch.model.variables.lint import LintFinding, LintLevel, Setting
from pylaunch.model.variables.together import judge

SYSTEM_CONF = Path("/etc/nccl.conf")


def lint_text(text: str, name: str) -> tuple[LintFinding, ...]:
    """Findings about the text of a file; a name that ends in .conf is taken for NCCL's own format."""
    read = read_nccl_conf if name.endswith(".conf") else read_environment_file
    settings, findings = read(text, name)
    return tuple(sorted((*findings, *judge(settings)), key=lambda finding: int(finding.where.rpartition(":")[2])))


def lint_this_machine(environment: Mapping[str, str]) -> tuple[LintFinding, ...]:
    """What a process with `environment` would get here: the environment wins over the user's file, that over /etc's."""
    chosen = environment.get("NCCL_CONF_FILE")
    users = Path(chosen) if chosen else Path.home() / ".nccl.conf"
    findings: list[LintFinding] = []
    settings: list[Setting] = settings_of(environment, "environment")
    for path in (users, SYSTEM_CONF):
        if path.is_file():
            read, problems = read_nccl_conf(path.read_text(errors="replace"), str(path))
            settings += read
            findings += problems
    return (*findings, *judge(settings))


def show(findings: Sequence[LintFinding]) -> None:
    """All findings to stdout, and how many to stderr."""
    for finding in findings:
        console.data("\n".join((f"{finding.severity.name.lower()}: {finding.line}", *details(finding))))
    counts = Counter(finding.severity for finding in findings)
    told = [
        f"{counts[severity]} {severity.name.lower()}{'s' if counts[severity] > 1 else ''}"
        for severity in sorted(LintLevel, reverse=True)
        if counts[severity]
    ]
    console.say(", ".join(told) or "nothing to say")


def details(finding: LintFinding) -> list[str]:
    """What goes below a finding: what to write, and where that is documented."""
    lines = [f"  instead: {finding.instead}"] if finding.instead else []
    if finding.source is not None:
        lines.append(f"  source: {finding.source.title}, {finding.source.url}")
    return lines


def report(findings: Sequence[LintFinding]) -> list[dict[str, str | None]]:
    """All findings for `--json`."""
    return [
        {
            "severity": finding.severity.name.lower(),
            "where": finding.where,
            "subject": finding.subject,
            "message": finding.message,
            "instead": finding.instead,
            "source": finding.source.url if finding.source is not None else None,
        }
        for finding in findings
    ]
