"""Settings of torch's flight recorder for the torch that a node has."""

import dataclasses
from pathlib import Path

import pytest

from pylaunch.agent.run.environment import OLDER_NAMES, recorder_settings
from pylaunch.base.layout import RunDirectory
from tests.agent.controller import task


@pytest.mark.parametrize(
    ("torch", "warns"),
    [("2.13.0+cpu", True), ("2.10.1", True), ("2.8.0", True), ("2.7.1", False), ("nightly", True), (None, True)],
)
def test_torch_gets_the_names_that_it_knows_and_no_name_that_it_warns_of(
    tmp_path: Path, torch: str | None, warns: bool
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    if torch is not None:
        (packages / f"torch-{torch}.dist-info").mkdir()
    asked = dataclasses.replace(task(tmp_path, "true"), python=str(tmp_path / "bin" / "python"))
    found = recorder_settings(asked, RunDirectory("r1", "/node/runs/r1"))
    assert found["TORCH_FR_BUFFER_SIZE"] == "2000"
    assert found["TORCH_FR_DUMP_TEMP_FILE"] == "/node/runs/r1/ranks/nccl-trace-"
    assert set(OLDER_NAMES.values()).isdisjoint(found) is warns
