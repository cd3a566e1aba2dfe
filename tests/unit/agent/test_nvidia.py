"""Parsers of the output of NVIDIA's driver and tools, on published output; each case names its source."""

from pathlib import Path

import pytest
import yaml

from pylaunch.agent.shared import essentials

CASES = Path(__file__).parents[2] / "cases"
VERSIONS = sorted((CASES / "nvidia_versions").glob("*.yaml"))


@pytest.mark.parametrize("file", VERSIONS, ids=[file.stem for file in VERSIONS])
def test_the_driver_version_is_parsed_for_both_kernel_modules(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    assert essentials.driver_version(case["text"]) == case["driver"]


def test_gpus_are_found_by_pci_class_and_switches_and_other_devices_are_ignored(tmp_path: Path) -> None:
    devices = {
        "0000:01:00.0": ("0x10de", "0x030200"),
        "0000:02:00.0": ("0x10de", "0x068000"),
        "0000:03:00.0": ("0x1a03", "0x030000"),
        "0000:04:00.0": ("0x10de", "0x040300"),
    }
    for address, (vendor, kind) in devices.items():
        (tmp_path / address).mkdir()
        (tmp_path / address / "vendor").write_text(f"{vendor}\n")
        (tmp_path / address / "class").write_text(f"{kind}\n")
    assert essentials.pci_gpus(str(tmp_path)) == ["0000:01:00.0"]
