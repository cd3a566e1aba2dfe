"""Command lines of `start` and `render` in README.md and in the guides plan a run of hosts with the names of the pages.

Planned, not started: a dry run contacts no host. All others are only parsed, in tests/unit/cli/test_documents.py.
"""

import pytest

from pylaunch.cli import main
from pylaunch.errors import ExitCode
from tests.documents import DocumentedCommand, documented_commands
from tests.starts.conftest import as_dry_run

PLANNED = [each for each in documented_commands() if each.verb in ("start", "render") and each.page != "slurm.md"]


@pytest.mark.usefixtures("in_project")
@pytest.mark.parametrize("command", PLANNED, ids=str)
def test_a_documented_start_has_a_plan(command: DocumentedCommand, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(as_dry_run(command.words)) == ExitCode.DONE, capsys.readouterr().err
