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

HEAD = """\
# Environment variables

`pylaunch env lint` checks environment variables of NCCL 2.18 to 2.30, PyTorch 2.13, gloo, TensorPipe, JAX 0.10 and some
of their dependencies, in a file, on stdin, or as a process on this machine would get them:

    pylaunch env lint /etc/nccl.conf
    pylaunch env lint job.env
    pylaunch env lint

`pylaunch start` checks `--env` and the variables of the inventory; `pylaunch provision` checks `nccl_env_variables`.
Both stop on an error: an impossible value, a name that differs by one or two letters from a real one, a contradiction.
Both print warnings: a name that nothing reads or that is unknown, a deprecated name, a variable for debugging in a
file.
The environment overrides `~/.nccl.conf` (or the file that `NCCL_CONF_FILE` names), which overrides `/etc/nccl.conf`.

*Node* marks variables that may differ between nodes; all others must be the same in every rank. *Debug* marks variables
for single jobs, which should not be in a file. *Since* is the first version that reads a variable, if its source states
it. This page is generated from `pylaunch/features/variables/judgement`.
"""


def page() -> str:
    """The reference as it should be."""
    sections = [HEAD, "## Names that nothing reads\n\n| name | write instead | source |\n|---|---|---|"]
    sections[-1] += "".join(
        f"\n| `{each.name}` | {each.instead} | [{each.source.title}]({each.source.url}) |" for each in UNREAD.values()
    )
    sections[-1] += "\n"
    sources = dict.fromkeys(each.source for each in VARIABLES.values())
    for source in sources:
        rows = [row(each) for each in VARIABLES.values() if each.source == source]
        table = "| variable | values | since | |\n|---|---|---|---|\n" + "\n".join(rows)
        sections.append(f"## {source.title}\n\n<{source.url}>\n\n{table}\n")
    return "\n".join(sections)


def row(variable: Variable) -> str:
    marks = ["node"] if variable.name in PER_NODE else []
    marks += ["debug"] if variable.debug_only else []
    if variable.until is not None:
        marks.append(f"gone after {variable.until}" + (f": `{variable.instead}`" if variable.instead else ""))
    elif variable.instead is not None:
        marks.append(f"deprecated: `{variable.instead}`")
    marks += [variable.note] if variable.note else []
    values = variable.kind.described.replace("|", "\\|")
    return f"| `{variable.name}` | {values} | {variable.since or ''} | {'; '.join(marks)} |"


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
