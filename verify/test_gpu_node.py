"""NVIDIA's devices: driver, libraries and settings that agree, and packages that stay as they are."""

from __future__ import annotations

import pytest
from conftest import RoleVariables
from testinfra.host import Host

pytestmark = pytest.mark.role("gpu_node")

LOADED = "/sys/module/nvidia/version"
DEVICES = "grep --no-messages --files-with-matches --max-count 1 0x10de /sys/bus/pci/devices/*/vendor"
DISPLAYS = "grep --no-messages --files-with-matches --max-count 1 ^0x03 /sys/bus/pci/devices/*/class"


def loaded_driver(host: Host) -> str | None:
    """The version of the driver in the kernel."""
    output = host.run("cat %s", LOADED)
    return output.stdout.strip() if output.rc == 0 else None


def has_gpu(host: Host) -> bool:
    """A display or 3D controller of NVIDIA's is on the bus."""
    vendor, kind = ({line.rpartition("/")[0] for line in host.run(look).stdout.split()} for look in (DEVICES, DISPLAYS))
    return bool(vendor & kind)


@pytest.fixture
def driver(host: Host, name: str) -> str:
    """The driver of a host with GPUs."""
    version = loaded_driver(host)
    if version is None and not has_gpu(host):
        pytest.skip(f"{name} has no NVIDIA device")
    assert version is not None, "there are NVIDIA devices, and no driver is loaded"
    return version


def test_libraries_and_driver_are_of_one_version(variables: RoleVariables, driver: str, host: Host) -> None:
    output = host.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert output.rc == 0, output.stdout + output.stderr
    assert set(output.stdout.split()) == {driver}


def test_the_driver_is_the_one_that_is_wanted(variables: RoleVariables, driver: str) -> None:
    wanted = variables["gpu_node_driver_version"]
    if not wanted:
        pytest.skip("no version is requested (gpu_node_driver_version)")
    assert driver == wanted


def test_the_driver_stays_loaded_between_programs(variables: RoleVariables, driver: str, host: Host) -> None:
    wanted = variables["gpu_node_persistence"]
    if not wanted:
        pytest.skip("persistence mode is not requested (gpu_node_persistence)")
    output = host.check_output("nvidia-smi --query-gpu=persistence_mode --format=csv,noheader")
    assert set(output.split()) == {wanted}


def test_packages_that_must_not_change_are_held(variables: RoleVariables, host: Host) -> None:
    wanted = variables["gpu_node_hold_packages"]
    if not wanted:
        pytest.skip("no package is to be held (gpu_node_hold_packages)")
    installed = [each for each in wanted if host.package(each).is_installed]
    if not installed:
        pytest.skip(f"none is installed: {', '.join(wanted)}")
    held = host.check_output("apt-mark showhold").split()
    assert [each for each in installed if each not in held] == []
