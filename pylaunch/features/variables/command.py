"""`pylaunch env lint`: judge variables in files, or those of a process on this machine."""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.variables.judgement import together
from pylaunch.features.variables.judgement.files import read_environment_file, read_nccl_conf
from pylaunch.model.setting import LintFinding, LintLevel, Setting, settings_of
from pylaunch.terminal import console, document, options


@click.command("lint")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@options.as_json
def command(files: tuple[str, ...], as_json: bool) -> ExitCode:
    """Judge the variables of NCCL, PyTorch, gloo and JAX in FILEs: unknown names, impossible values, contradictions.

    A FILE whose name ends in .conf is read as NCCL reads its own; any other, and - for stdin, as lines NAME=VALUE.
    Without FILE: what a process would get here, from the environment, ~/.nccl.conf and /etc/nccl.conf. Ends with 2
    when there are errors.
    """
    if files:
        findings = [finding for name in files for finding in lint_text(_text(name), name)]
    else:
        findings = list(lint_this_machine(os.environ))
    if as_json:
        document.show({"findings": _report(findings)})
    else:
        _show(findings)
    return ExitCode.USAGE if any(each.severity is LintLevel.ERROR for each in findings) else ExitCode.DONE


def _text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


SYSTEM_CONF = Path("/etc/nccl.conf")


def lint_text(text: str, name: str) -> tuple[LintFinding, ...]:
    """Findings about the text of a file; a name that ends in .conf is taken for NCCL's own format."""
    read = read_nccl_conf if name.endswith(".conf") else read_environment_file
    settings, findings = read(text, name)
    return tuple(
        sorted((*findings, *together.judge(settings)), key=lambda finding: int(finding.where.rpartition(":")[2]))
    )


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
    return (*findings, *together.judge(settings))


def _show(findings: Sequence[LintFinding]) -> None:
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


def _report(findings: Sequence[LintFinding]) -> list[dict[str, str | None]]:
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
