"""`pylaunch env lint`: judge variables in files, or those of a process on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.variables import view
from pylaunch.model.setting import LintLevel
from pylaunch.terminal import document, options


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
        findings = [finding for name in files for finding in view.lint_text(_text(name), name)]
    else:
        findings = list(view.lint_this_machine(os.environ))
    if as_json:
        document.show({"findings": view.report(findings)})
    else:
        view.show(findings)
    return ExitCode.USAGE if any(each.severity is LintLevel.ERROR for each in findings) else ExitCode.DONE


def _text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
