"""Findings about variables as a person reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pylaunch.features.variables.judgement.files import read_environment_file, read_nccl_conf
from pylaunch.features.variables.judgement.together import judge
from pylaunch.model.setting import LintFinding, LintLevel, Setting, settings_of
from pylaunch.terminal import console

SYSTEM_CONF = Path("/etc/nccl.conf")


def lint_text(text: str, name: str) -> tuple[LintFinding, ...]:
    """Findings about the text of a file; a name that ends in .conf is taken for NCCL's own format."""
    read = read_nccl_conf if name.endswith(".conf") else read_environment_file
    settings, findings = read(text, name)
    return tuple(sorted((*findings, *judge(settings)), key=lambda finding: int(finding.where.rpartition(":")[2])))


def lint_this_machine(environment: Mapping[str, str]) -> tuple[LintFinding, ...]:
    """Judge the variables of a process here: `environment` wins over the file of the user, which wins over /etc."""
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
    """Print all findings to stdout, and their number to stderr."""
    for finding in findings:
        console.data("\n".join((f"{finding.severity.name.lower()}: {finding.line}", *details(finding))))
    counts = Counter(finding.severity for finding in findings)
    parts = [
        f"{counts[severity]} {severity.name.lower()}{'s' if counts[severity] > 1 else ''}"
        for severity in sorted(LintLevel, reverse=True)
        if counts[severity]
    ]
    console.say(", ".join(parts) or "nothing to say")


def details(finding: LintFinding) -> list[str]:
    """Return the lines below a finding: the correction, and its documentation."""
    lines = [f"  instead: {finding.instead}"] if finding.instead else []
    if finding.source is not None:
        lines.append(f"  source: {finding.source.title}, {finding.source.url}")
    return lines


def report(findings: Sequence[LintFinding]) -> list[dict[str, str | None]]:
    """Return all findings for `--json`."""
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
