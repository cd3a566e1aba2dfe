"""Parsers of device output of NVIDIA's tools and the kernel, on published output.

Each case names its source and our changes to it: edited_… combine pieces of several sources.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pylaunch.agent.probe.readers.devices import gpu, infiniband
from pylaunch.agent.shared import cgroups, programs

CASES = Path(__file__).parents[2] / "cases"


def cases(directory: str) -> pytest.MarkDecorator:
    files = sorted((CASES / directory).glob("*.yaml"))
    assert files
    return pytest.mark.parametrize("case", [pytest.param(yaml.safe_load(f.read_text()), id=f.stem) for f in files])


@cases("nvidia_smi_xml")
def test_a_device_is_parsed_from_the_output_of_nvidia_smi(case: dict[str, Any]) -> None:
    found = gpu.cards(case["text"])
    assert (found["driver"], found["cuda"], found["complaint"]) == (case["driver"], case["cuda"], None)
    assert found["cards"] == [case["card"]]


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178\n",
            "Failed to initialize NVML: Driver/library version mismatch NVML library version: 580.178",
        ),
        ("", "it printed nothing"),
        ("<nvidia_smi_log>\n<gpu", "<nvidia_smi_log> <gpu"),
    ],
)
def test_an_error_message_of_nvidia_smi_is_kept(output: str, complaint: str) -> None:
    assert gpu.cards(output) == {"complaint": complaint, "driver": None, "cuda": None, "cards": []}


@cases("cgroup_containers")
def test_the_container_of_a_process_is_in_its_cgroups(case: dict[str, Any]) -> None:
    assert cgroups.container_of(case["text"]) == case["answer"]


@pytest.mark.parametrize("is_of_host", [True, False])
def test_a_process_of_nvidia_smi_has_its_container_where_ids_of_processes_are_those_of_the_host(
    monkeypatch: pytest.MonkeyPatch, is_of_host: bool
) -> None:
    case = yaml.safe_load((CASES / "cgroup_containers/docker_systemd.yaml").read_text())
    process = {"pid": 4121, "type": "C", "name": "python", "memory_mib": 1}
    found = {"complaint": None, "driver": "580", "cuda": "13.0", "cards": [{"processes": [process]}]}
    monkeypatch.setattr(gpu, "is_here", lambda: True)
    monkeypatch.setattr(programs, "path_of", lambda _: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(gpu, "tool_output", lambda _: "")
    monkeypatch.setattr(gpu, "cards", lambda _: found)
    monkeypatch.setattr(cgroups, "sees_all_pids", lambda: is_of_host)
    monkeypatch.setattr(cgroups, "_membership", lambda pid: case["text"] if pid == 4121 else "0::/init.scope\n")
    gpu.management(None)
    assert process.get("container") == (case["answer"] if is_of_host else None)


@pytest.mark.parametrize(
    ("others", "named"),
    [({"pid": "pid:[7]"}, "a container"), ({"user": "user:[7]"}, "a container"), ({"net": "net:[7]"}, ""), ({}, "")],
)
def test_a_container_without_a_cgroup_is_known_by_its_namespaces(
    others: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def namespace(path: str) -> str:
        _, _, pid, _, kind = path.split("/")
        return "" if pid == "4122" else others.get(kind, "mine") if pid == "4121" else "mine"

    monkeypatch.setattr(cgroups, "_membership", lambda _: "0::/user.slice/user-0.slice/session-6393.scope\n")
    monkeypatch.setattr(cgroups, "link_of", namespace)
    assert (cgroups.container(4121), cgroups.container(4122)) == (named, "")


@cases("nvidia_nvlink")
def test_links_are_parsed(case: dict[str, Any]) -> None:
    assert gpu.nvlink(case["status"]) == case["answer"]


@cases("nvidia_xids")
def test_xids_are_parsed_from_a_kernel_log_with_their_times(case: dict[str, Any]) -> None:
    assert gpu.xids(case["text"]) == case["answer"]


@cases("infiniband_trees")
def test_ports_are_read_from_the_kernels_files(case: dict[str, Any], tmp_path: Path) -> None:
    for name, content in case["files"].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    assert infiniband.ports(str(tmp_path)) == case["answer"]
