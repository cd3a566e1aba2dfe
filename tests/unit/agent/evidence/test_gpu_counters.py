"""GPUs of a node at its failure, from output in the form of nvidia-smi."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.agent.evidence.gpu_counters import LONGEST, GpuCounters, parse

CASES = sorted((Path(__file__).parents[3] / "cases" / "nvidia_smi_counters").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_output_of_nvidia_smi_becomes_counters_gauges_and_its_complaint(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    assert parse(case["text"]) == GpuCounters(case["counters"], case["gauges"], case["missing"])


@given(st.text())
def test_any_output_is_read(text: str) -> None:
    assert len(parse(text).missing) <= LONGEST + 30


def test_no_output_is_no_gpu() -> None:
    assert parse("") == GpuCounters()
