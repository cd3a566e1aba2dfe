"""The man page has every command with its options. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pylaunch.cli.main import ABOUT, pylaunch
from pylaunch.errors import ExitCode
from tests.golden.test_help import commands

PAGE = Path(__file__).parents[2] / "docs/man/pylaunch.1"

HEAD = """\
.\\" Generated from the command line: UPDATE_GOLDEN=1 pytest tests/golden
.TH PYLAUNCH 1 "" "pylaunch" "User commands"
.SH NAME
pylaunch \\- start multi\\-node training over SSH, and prepare the machines
.SH SYNOPSIS
.B pylaunch
.I VERB
[\\fIOPTION\\fR]... [\\fB\\-\\-\\fR \\fIPROGRAM\\fR [\\fIARGUMENT\\fR]...]
.SH DESCRIPTION
"""
TAIL = """\
.SH FILES
.TP
.I cluster.ini, pylaunch.toml
The inventory and the settings of a project, in the working directory; \\fBpylaunch config show\\fR prints those in use.
.TP
.I .pylaunch
Beside the inventory: host keys, the Python environment, attestations.
.TP
.I ~/.local/state/pylaunch
Records of runs; \\fBXDG_STATE_HOME\\fR moves it.
.TP
.I /var/tmp/pylaunch\\-UID
On nodes: agent, logs and shipped code.
.SH SEE ALSO
\\fBpylaunch help\\fR lists the pages of the guides and of the reference, which are part of the installation.
"""


def escaped(text: str) -> str:
    """Text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.split("\n"))


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a help; one that click does not wrap keeps its lines."""
    for each in inspect.cleandoc(text).split("\n\n"):
        if each.startswith("\b"):
            yield f".PP\n.nf\n{escaped(each.removeprefix(chr(8)).strip(chr(10)))}\n.fi\n"
        else:
            yield f".PP\n{escaped(' '.join(each.split()))}\n"


def section(name: str, command: click.Command) -> str:
    """Section of one command."""
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f".SS {escaped(name)} {escaped(usage)}\n", *paragraphs(command.help or "")]
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            lines.append(f".TP\n.B {escaped(record[0])}\n{escaped(' '.join(record[1].split()))}\n")
    lines += paragraphs(command.epilog or "")
    return "".join(lines)


def page() -> str:
    """The page as it should be."""
    verbs = "".join(section(name, command) for name, command in commands() if command is not pylaunch)
    codes = "".join(f".TP\n.B {int(each)}\n{escaped(each.name.lower().replace('_', ' '))}\n" for each in ExitCode)
    return f"{HEAD}{escaped(ABOUT)}\n.SH VERBS\n{verbs}.SH EXIT STATUS\n{codes}{TAIL}"


def test_the_man_page_has_the_commands_of_the_parser() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_renders_it_without_a_warning() -> None:
    environment = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    shown = subprocess.run(
        ["man", "--warnings=all", "-l", str(PAGE)], env=environment, capture_output=True, text=True, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--max-restarts" in shown.stdout
    assert "exit" in shown.stdout.lower()
