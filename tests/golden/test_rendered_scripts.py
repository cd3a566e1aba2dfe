"""Scripts of `pylaunch render`. UPDATE_GOLDEN=1 pytest tests/golden writes."""

from pathlib import Path

import pytest

from tests.features.render_files.samples import rendered
from tests.golden.files import golden

SHOWN = (("cpu", "slurm"), ("uneven", "torchrun"))
DIRECTORY = Path(__file__).parent / "render"


@pytest.mark.parametrize(("sample", "target"), SHOWN)
def test_scripts_are_as_they_were(sample: str, target: str) -> None:
    text = rendered(sample, target)
    assert text == golden(DIRECTORY / f"{sample}-{target}.txt", text)
