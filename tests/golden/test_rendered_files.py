"""Files of `pylaunch render`, and the words of other tools. UPDATE_GOLDEN=1 pytest tests/golden writes."""

from pathlib import Path

import pytest

from pylaunch.features.render_files.files import Target
from pylaunch.terminal.other_tools import COMMANDS
from tests.features.render_files.samples import rendered
from tests.golden.files import golden, refilled

SHOWN = ("cpu", "uneven")
DIRECTORY = Path(__file__).parent / "render"


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("sample", SHOWN)
def test_files_are_as_they_were(sample: str, target: Target) -> None:
    found = rendered(sample, target)
    parts = [f"==> {file.name} <==\n{file.text}" for file in found.files]
    text = "\n".join([*parts, "use:", *found.commands, "remarks:", *found.remarks]) + "\n"
    assert text == golden(DIRECTORY / f"{sample}-{target.value}.txt", text)


def test_there_is_a_page_for_each_sample_and_target_and_no_other() -> None:
    expected = {f"{sample}-{target.value}.txt" for sample in SHOWN for target in Target}
    assert {path.name for path in DIRECTORY.iterdir()} == expected


PAGE = Path(__file__).parents[2] / "docs/guides/from-torchrun-or-slurm.md"
TABLE = "| typed after `pylaunch` | command |\n|---|---|\n"


def page() -> str:
    """The guide as it should be."""
    typed: dict[str, list[str]] = {}
    for word, command in COMMANDS.items():
        typed.setdefault(command, []).append(f"`{word}`")
    rows = (f"| {', '.join(words)} | `pylaunch {command}` |\n" for command, words in typed.items())
    return refilled(PAGE, TABLE, "".join(rows))


def test_the_guide_has_the_words_of_the_table() -> None:
    expected = page()
    assert expected == golden(PAGE, expected)
