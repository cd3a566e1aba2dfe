"""The man page has every verb, and `--help` the options. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.cli.main import ABOUT, VERBS
from pylaunch.errors import ExitCode
from pylaunch.terminal.doors import VerbGroup
from tests.golden.files import golden

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
\\fBpylaunch \\fIVERB\\fB \\-\\-help\\fR lists the options of a verb.
.PP
\\fBpylaunch help\\fR lists the pages of the guides and of the reference, which are part of the installation.
"""


def escaped(text: str) -> str:
    """Text that roff prints as it is."""
    return text.replace("\\", "\\e").replace("-", "\\-")


def verbs() -> Iterator[str]:
    """Yield the groups with their verbs, in the order of `pylaunch --help`."""
    for group in VerbGroup:
        yield f".SS {escaped(group.value)}\n"
        for name, verb in VERBS.items():
            if verb.group is group:
                yield f".TP\n.B {escaped(name)}\n{escaped(verb.help)}\n"


def page() -> str:
    """The page as it should be."""
    codes = "".join(f".TP\n.B {int(each)}\n{escaped(each.name.lower().replace('_', ' '))}\n" for each in ExitCode)
    return f"{HEAD}{escaped(ABOUT)}\n.SH VERBS\n{''.join(verbs())}.SH EXIT STATUS\n{codes}{TAIL}"


def test_the_man_page_has_the_verbs_of_the_parser() -> None:
    assert page() == golden(PAGE, page())


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_renders_it_without_a_warning() -> None:
    environment = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    shown = subprocess.run(
        ["man", "--warnings=all", "-l", str(PAGE)], env=environment, capture_output=True, text=True, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "provision" in shown.stdout
    assert "exit" in shown.stdout.lower()
