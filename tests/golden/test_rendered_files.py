"""Files of `pylaunch render`, as they are. To accept new ones: UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pylaunch.features.render_files.files import Target
from tests.features.render_files.samples import SAMPLES, rendered

DIRECTORY = Path(__file__).parent / "render"


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("sample", SAMPLES)
def test_files_are_as_they_were(sample: str, target: Target) -> None:
    found = rendered(sample, target)
    parts = [f"==> {file.name} <==\n{file.text}" for file in found.files]
    text = "\n".join([*parts, "use:", *found.commands, "remarks:", *found.remarks]) + "\n"
    golden = DIRECTORY / f"{sample}-{target.value}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_there_is_a_page_for_each_sample_and_target_and_no_other() -> None:
    expected = {f"{sample}-{target.value}.txt" for sample in SAMPLES for target in Target}
    assert {path.name for path in DIRECTORY.iterdir()} == expected
