from dataclasses import replace

import pytest

from pylaunch.protocol.readings.roles import GpuReading
from pylaunch.provision.observed.drift import changes_of, notes
from pylaunch.provision.observed.facts import Facts
from pylaunch.provision.state import DesiredGpu, RoleState
from tests.unit.provision.host import converged

ROLE = RoleState("gpu_node", gpus=(DesiredGpu("", "Enabled", "auto", "auto"),))
GOOD = GpuReading(
    driver="565.57.01", open_module=False, kernel="5.4.0-200-generic", gpus=8, models=[], firmware=[], nvswitches=4,
    persistence="Enabled", library="565.57.01", fabric_manager="565.57.01", peermem=True, infiniband=8,
)  # fmt: skip


def host(fact: GpuReading | None) -> Facts:
    return replace(converged([ROLE]), gpus={"all": fact})


def test_a_node_whose_versions_agree_has_no_difference() -> None:
    assert changes_of([ROLE], host(GOOD)) == ()
    assert notes([ROLE], host(GOOD)) == ()


@pytest.mark.parametrize(
    ("found", "subject", "difference"),
    [
        ({"driver": None}, "gpu driver", "is not loaded, and there are 8 devices"),
        ({"library": "565.77"}, "gpu driver", "is 565.57.01, and its libraries say 565.77: reboot after an upgrade"),
        ({"persistence": "Disabled"}, "gpu persistence", "is Disabled, not Enabled: start nvidia-persistenced"),
        ({"fabric_manager": None}, "fabric manager", "is not installed, and there are 4 NVSwitches"),
        (
            {"fabric_manager": "530.30.02"},
            "fabric manager",
            "is 530.30.02, and must be the driver's version 565.57.01",
        ),
        (
            {"peermem": False},
            "nvidia_peermem",
            "is not loaded, so the network cannot reach device memory: modprobe nvidia_peermem",
        ),
        (
            {"peermem": False, "open_module": True},
            "nvidia_peermem",
            "is not loaded, so the network cannot reach device memory: modprobe nvidia_peermem",
        ),
    ],
)
def test_versions_that_do_not_agree_are_reported(found: dict[str, object], subject: str, difference: str) -> None:
    (change,) = changes_of([ROLE], host({**GOOD, **found}))  # type: ignore[arg-type]
    assert (change.subject, change.difference) == (subject, difference)


@pytest.mark.parametrize(
    "found",
    [
        {"fabric_manager": None, "nvswitches": 0},
        {"peermem": False, "infiniband": 0},
        {"peermem": False, "open_module": True, "kernel": "6.8.0-45-generic"},
    ],
)
def test_software_that_a_node_does_not_need_is_not_required(found: dict[str, object]) -> None:
    assert changes_of([ROLE], host({**GOOD, **found})) == ()  # type: ignore[arg-type]


def test_another_driver_than_the_wanted_one_is_a_difference() -> None:
    role = RoleState("gpu_node", gpus=(DesiredGpu(driver="580.95.05"),))
    (change,) = changes_of([role], host(GOOD))
    assert change.difference == "is 565.57.01, not 580.95.05"


def test_a_host_without_devices_is_not_applicable_and_says_so() -> None:
    assert changes_of([ROLE], host(None)) == ()
    assert [note.text for note in notes([ROLE], host(None))] == ["not applicable: no NVIDIA device"]
