"""The reference of variables, and what `env lint` prints. To accept new ones: UPDATE_GOLDEN=1 pytest this file."""

from pathlib import Path

import click.testing
import pytest

from pylaunch.cli.main import pylaunch
from pylaunch.features.variables.judgement.lint import UNREAD, VARIABLES
from pylaunch.features.variables.judgement.variable import Variable
from pylaunch.model.setting import PER_NODE
from tests.golden.files import golden

PAGE = Path(__file__).parents[3] / "docs/reference/environment-variables.md"
LINTED = Path(__file__).parent / "env-lint"

TABLE = "## Names that nothing reads\n\n| name | write instead | source |\n|---|---|---|\n"


def page() -> str:
    """The reference as it should be."""
    text = "".join(
        f"| `{each.name}` | {each.instead} | [{each.source.title}]({each.source.url}) |\n" for each in UNREAD.values()
    )
    for source in dict.fromkeys(each.source for each in VARIABLES.values()):
        text += f"\n## {source.title}\n\n<{source.url}>\n\n| variable | values | since | |\n|---|---|---|---|\n"
        text += "".join(row(each) for each in VARIABLES.values() if each.source == source)
    return PAGE.read_text().partition(TABLE)[0] + TABLE + text


def row(variable: Variable) -> str:
    marks = ["node"] if variable.name in PER_NODE else []
    marks += ["debug"] if variable.debug_only else []
    if variable.until is not None:
        marks.append(f"gone after {variable.until}" + (f": `{variable.instead}`" if variable.instead else ""))
    elif variable.instead is not None:
        marks.append(f"deprecated: `{variable.instead}`")
    marks += [variable.note] if variable.note else []
    values = variable.kind.described.replace("|", "\\|")
    return f"| `{variable.name}` | {values} | {variable.since or ''} | {'; '.join(marks)} |\n"


def test_the_reference_of_variables_says_what_the_registry_knows() -> None:
    assert page() == golden(PAGE, page())


def test_each_variable_that_may_differ_between_nodes_is_in_the_registry() -> None:
    assert set(VARIABLES) >= PER_NODE


def test_env_lint_prints_each_finding_with_what_to_write_and_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(LINTED)
    result = click.testing.CliRunner().invoke(pylaunch, ["env", "lint", "input.conf"], standalone_mode=False)
    assert result.stdout == golden(LINTED / "output.txt", result.stdout)
    assert result.return_value == 2


def test_env_lint_of_a_clean_file_prints_nothing_and_ends_well(tmp_path: Path) -> None:
    file = tmp_path / "job.env"
    file.write_text("NCCL_DEBUG=WARN\n")
    result = click.testing.CliRunner().invoke(pylaunch, ["env", "lint", str(file)], standalone_mode=False)
    assert (result.stdout, result.return_value) == ("", 0)
