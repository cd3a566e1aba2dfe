"""Files of `pylaunch render`. UPDATE_GOLDEN=1 pytest tests/golden writes."""

from pathlib import Path

import pytest

from pylaunch.features.render_files.files import Target
from tests.features.render_files.samples import rendered
from tests.golden.files import golden

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
