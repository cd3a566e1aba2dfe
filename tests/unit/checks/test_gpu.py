from typing import Any

import pytest

from pylaunch.checks.devices import gpu, gpu_health, gpu_use
from pylaunch.checks.suite import judge
from pylaunch.checks.survey import Look, Survey, Wanted
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from tests.unit.checks.devices import card, smi, survey, well

CHECKS = (*gpu.CHECKS, *gpu_health.CHECKS, *gpu_use.CHECKS)
FAIL, WARN, NOTE = Severity.FAIL, Severity.WARN, Severity.NOTE
STALE = {
    "pid": 4121, "parent": 1, "started": 7, "began": 0.0, "uid": 0, "user": "root", "command": "python train.py",
    "cwd": "/", "rank": True, "run": None, "run_is_live": False, "devices": ["/dev/nvidia0"], "ports": [],
    "is_terminal": False, "is_reaper": False, "service": "", "container": "",
}  # fmt: skip


def found(seen: Survey) -> tuple[Finding, ...]:
    return judge(seen, CHECKS)


def only(seen: Survey) -> Finding:
    (finding,) = found(seen)
    return finding


def test_healthy_hosts_are_not_mentioned() -> None:
    assert found(survey()) == ()


def test_hosts_without_gpus_pass_when_none_are_wanted() -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),))
    nothing = dict.fromkeys(well(), None) | {"occupants.processes": well()["occupants.processes"]}
    assert found(Survey(cluster, Wanted(), {"n1": Look(nothing)})) == ()


def test_gpus_of_the_inventory_that_the_host_lacks_are_a_failure() -> None:
    nothing = dict.fromkeys(well(), None) | {"occupants.processes": well()["occupants.processes"]}
    finding = only(survey(n2=nothing, n1={}, n3={}))
    assert (finding.check, finding.severity, finding.hosts) == ("gpu.count", FAIL, ("n2",))
    assert "0 GPUs are there, and the inventory gives device 1 to runs" in finding.text


def test_a_driver_version_that_differs_from_most_hosts_is_reported() -> None:
    odd = {"gpu.smi": {**well()["gpu.smi"], "driver": "535.54.03"}}
    finding = only(survey(n3=odd))
    assert (finding.check, finding.severity, finding.hosts) == ("gpu.software", FAIL, ("n3",))
    assert finding.text == "driver: 535.54.03, expected 555.42.06 as on n[1-2]"


@pytest.mark.parametrize(
    ("fields", "check", "severity", "text"),
    [
        ({"ecc_uncorrectable": 2}, "gpu.memory", FAIL, "GPU 1: 2 uncorrectable ECC errors"),
        ({"remap_failure": "Yes", "remap_pending": "Yes"}, "gpu.memory", FAIL, "could not be remapped"),
        ({"remap_pending": "Yes"}, "gpu.memory", WARN, "remapped at the next reset"),
        ({"recovery": "GPU Reset"}, "gpu.memory", FAIL, "asks for an action: GPU Reset"),
        ({"throttled": ["hw_slowdown", "hw_thermal_slowdown"]}, "gpu.clocks", WARN, "too hot, at 45 °C"),
        ({"throttled": ["hw_power_brake_slowdown"]}, "gpu.clocks", WARN, "power supply"),
        ({"persistence": "Disabled"}, "gpu.settings", WARN, "persistence mode is off on GPU 1"),
        ({"compute_mode": "Prohibited"}, "gpu.settings", FAIL, "compute mode is Prohibited"),
        ({"mig": "Enabled"}, "gpu.settings", FAIL, "MIG is on on GPU 1 and off on the others"),
        ({"fabric_state": "In Progress"}, "gpu.fabric", FAIL, "GPU 1: fabric In Progress, expected Completed"),
        ({"memory_used_mib": 20000}, "gpu.free", WARN, "20000 MiB are in use and no process is seen"),
    ],
)
def test_a_fault_of_a_gpu_is_reported_with_that_gpu(
    fields: dict[str, Any], check: str, severity: Severity, text: str
) -> None:
    finding = only(survey(n2=smi(card(0), card(1, **fields))))
    assert (finding.check, finding.severity, finding.hosts) == (check, severity, ("n2",))
    assert text in finding.text
    assert finding.fix


def xid(code: int, bus: str = "0000:02:00") -> dict[str, Any]:
    return {"gpu.xid": {"uptime_s": 7200.0, "xids": [{"at": 3600.0, "bus": bus, "code": code, "text": "pid=1"}]}}


@pytest.mark.parametrize(
    ("code", "severity"), [(79, FAIL), (48, FAIL), (119, FAIL), (63, WARN), (13, NOTE), (999, WARN)]
)
def test_an_xid_is_reported_with_its_gpu_its_age_and_a_fix(code: int, severity: Severity) -> None:
    finding = only(survey(n1=xid(code)))
    assert (finding.check, finding.severity, finding.hosts) == ("gpu.xid", severity, ("n1",))
    assert finding.text.startswith(f"GPU 1: Xid {code} (")
    assert "1.0 h ago" in finding.text
    assert finding.evidence == (f"NVRM: Xid (PCI:0000:02:00): {code}, pid=1",)


def test_an_xid_that_needs_no_action_is_no_failure_unless_only_a_reboot_helps() -> None:
    recovered = smi(card(0), card(1, recovery="None"))
    assert only(survey(n1={**recovered, **xid(95)})).severity is WARN
    assert only(survey(n1={**recovered, **xid(79)})).severity is FAIL


def test_a_link_that_is_down_is_found_by_comparison_with_the_other_gpus() -> None:
    links = {**well()["gpu.nvlink"], "1": {"up": [0, 1, 3], "down": [2]}}
    finding = only(survey(n3={"gpu.nvlink": links}))
    assert (finding.check, finding.severity, finding.hosts) == ("gpu.nvlink", FAIL, ("n3",))
    assert finding.text == "GPU 1: 3 NVLinks are up (down: 2), its like have 4"


COMPUTES = [{"pid": 4121, "type": "C", "name": "python", "memory_mib": 40000}]


def test_a_process_that_computes_on_a_gpu_is_reported_with_its_memory_and_owner() -> None:
    theirs = {**well()["occupants.processes"], "uid": 1000, "processes": [{**STALE, "user": "bert", "uid": 1001}]}
    finding = only(survey(n2={**smi(card(0, processes=COMPUTES), card(1)), "occupants.processes": theirs}))
    assert (finding.check, finding.severity, finding.hosts) == ("gpu.free", FAIL, ("n2",))
    assert finding.text == "pid 4121 (python train.py) of bert has 40000 MiB of GPU 0"


def test_an_orphaned_process_is_reported_with_the_command_that_ends_it() -> None:
    ours = {**well()["occupants.processes"], "processes": [STALE]}
    finding = only(survey(n2={**smi(card(0, processes=COMPUTES), card(1)), "occupants.processes": ours}))
    assert finding.text.endswith("nobody runs it any more")
    assert finding.fix == "pylaunch clean --yes --limit n2"


def test_a_desktop_and_devices_that_the_run_does_not_use_may_be_busy() -> None:
    desktop = [{"pid": 1802, "type": "G", "name": "Hyprland", "memory_mib": 1448}]
    seen = survey(Wanted(devices={"n2": (0,)}), n2=smi(card(0, processes=desktop), card(1, processes=COMPUTES)))
    assert found(seen) == ()


@pytest.mark.parametrize(("cuda", "fails"), [(12, False), (11, False), (13, True)])
def test_a_driver_runs_programs_of_its_own_cuda_and_of_earlier_ones(cuda: int, fails: bool) -> None:
    needed = {"gpu.cuda": {"package": "torch", "cuda": cuda}}
    assert [finding.check for finding in found(survey(n1=needed))] == (["gpu.cuda"] if fails else [])
