"""`pylaunch env lint`: judge variables in files, or those of a process on this machine."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.variables.judgement import judge
from pylaunch.model.setting import LintFinding, LintLevel, Setting, VariablePlace, settings_of
from pylaunch.terminal import console, document, options

SYSTEM_CONF = Path("/etc/nccl.conf")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")


@click.command("lint")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@options.as_json
def command(files: tuple[str, ...], as_json: bool) -> ExitCode:
    """Judge the variables of NCCL, PyTorch, gloo and JAX in FILEs: names that nothing reads, impossible values.

    A FILE whose name ends in .conf is read as NCCL reads its own; any other, and - for stdin, as lines NAME=VALUE.
    Without FILE: what a process would get here, from the environment, ~/.nccl.conf and /etc/nccl.conf. Ends with 2
    when there are errors.
    """
    findings = [each for name in files for each in lint_text(_text(name), name)] if files else lint_this_machine()
    if as_json:
        document.show({"findings": [_report(each) for each in findings]})
    else:
        for each in findings:
            _show(each)
        counts = Counter(each.severity.name.lower() for each in findings)
        parts = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in sorted(counts.items())]
        console.say(", ".join(parts) or "nothing to say")
    return ExitCode.USAGE if any(each.severity is LintLevel.ERROR for each in findings) else ExitCode.DONE


def _text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


def lint_this_machine() -> list[LintFinding]:
    """Judge the variables of a process here; NCCL reads one file of the user, and the one of the system."""
    chosen = os.environ.get("NCCL_CONF_FILE")
    users = Path(chosen) if chosen else Path.home() / ".nccl.conf"
    findings = [*judge(settings_of(os.environ, "environment"))]
    for path in (users, SYSTEM_CONF):
        if path.is_file():
            findings += lint_text(_text(str(path)), str(path), is_nccls=True)
    return findings


def lint_text(text: str, name: str, *, is_nccls: bool = False) -> list[LintFinding]:
    """Return the findings about the text of a file; a name that ends in .conf is taken for NCCL's own format."""
    is_nccls = is_nccls or name.endswith(".conf")
    findings: list[LintFinding] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            findings += _of_conf(line, f"{name}:{number}") if is_nccls else _of_shell(line, f"{name}:{number}")
    return findings


def _of_conf(line: str, where: str) -> Iterator[LintFinding]:
    """Yield the findings about a line that NCCL reads.

    NCCL (src/misc/param.cc) splits it at the first =, trims nothing and knows neither quotes, comments after a value
    nor export: what does not fit is silently skipped, or sets a variable of a strange name.
    """
    name, equals, value = line.partition("=")
    bare, meant = name.strip().removeprefix("export ").strip(), _unquoted(value)
    if not equals or not _NAME.fullmatch(bare):
        text = "NCCL takes only NAME=VALUE, and # in the first column"
        yield LintFinding(LintLevel.ERROR, where, "this line", text, "NAME=VALUE")
        return
    if (name, value) != (bare, meant):
        text = "blanks, quotes, export and comments become part of the name or the value"
        yield LintFinding(LintLevel.ERROR, where, bare, text, f"{bare}=…, without them")
    yield from judge([Setting(bare, meant, where, VariablePlace.NCCL_CONF)])


def _of_shell(line: str, where: str) -> Iterator[LintFinding]:
    """Yield the findings about a line NAME=VALUE, with `export`, quotes and comments as in a shell."""
    name, equals, value = line.strip().removeprefix("export ").strip().partition("=")
    if equals and _NAME.fullmatch(name):
        yield from judge([Setting(name, _unquoted(value), where, VariablePlace.FILE)])
    elif not line.lstrip().startswith("#"):
        yield LintFinding(LintLevel.ERROR, where, "this line", "expected NAME=VALUE")


def _unquoted(value: str) -> str:
    if quoted := _QUOTED.match(value.strip()):
        return quoted[1] or quoted[2] or ""
    return re.sub(r"\s+#.*", "", value).strip()


def _show(finding: LintFinding) -> None:
    console.data(f"{finding.severity.name.lower()}: {finding.line}")
    if finding.instead:
        console.data(f"  instead: {finding.instead}")
    if finding.source is not None:
        console.data(f"  source: {finding.source.title}, {finding.source.url}")


def _report(finding: LintFinding) -> dict[str, str | None]:
    return {
        "severity": finding.severity.name.lower(),
        "where": finding.where,
        "subject": finding.subject,
        "message": finding.message,
        "instead": finding.instead,
        "source": finding.source.url if finding.source is not None else None,
    }
