"""GPUs are checked through a stand-in of NVML in each state that a rank would not survive."""

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.run import gpu_checks
from tests.agent.controller import task

SOURCE = Path(__file__).with_name("fake_nvml.c")
Check = Callable[..., list[protocol.Reason]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    def with_state(*state: str, devices: tuple[int, ...] = (0, 1), **env: str) -> list[protocol.Reason]:
        library = tmp_path / "libnvidia-ml.so.1"
        words = ["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE), *(f"-D{each}" for each in state)]
        subprocess.run(words, check=True)
        monkeypatch.setattr(gpu_checks, "LIBRARY", str(library))
        monkeypatch.setattr(gpu_checks, "DRIVER", str(tmp_path))
        asked = dataclasses.replace(task(tmp_path, ["true"], env=env), devices=list(devices))
        return gpu_checks.GpuCheck(asked).problems()

    return with_state


def test_eight_healthy_gpus_are_no_problem_and_take_little_time(check: Check) -> None:
    begun = time.monotonic()
    assert check(devices=tuple(range(8))) == []
    assert time.monotonic() - begun < 5, "with the compiler"


@pytest.mark.parametrize(
    ("state", "code", "text"),
    [
        ("COUNT=1", "gpu-missing", "GPU 1 of the inventory is missing: 1 answer"),
        ("HANDLE=15", "gpu-fault", "GPU 1 has fallen off the bus"),
        ("MODE_CODE=15", "gpu-fault", "GPU 1 has fallen off the bus"),
        ("HANDLE=16", "gpu-fault", "GPU 1 needs a reset"),
        ("PENDING=1", "gpu-fault", "GPU 1 waits for a reset to replace broken memory"),
        ("RETIRE=1", "gpu-fault", "GPU 1 waits for a reset to replace broken memory"),
        ("FAILED=1", "gpu-fault", "GPU 1 could not replace a broken row of its memory"),
        ("ECC=3", "gpu-fault", "GPU 1 has had 3 uncorrected memory errors (ECC) since its last reset"),
        ("MODE=2", "gpu-mode", "GPU 1 is in compute mode Prohibited: no process may use it"),
        ("MIG=1", "gpu-mode", "GPU 1 is in MIG mode: a rank gets one of its instances, not the GPU"),
        ("INIT=9", "gpu-silent", "no NVIDIA GPU can be used: its driver is not loaded"),
        ("INIT=18", "gpu-silent",
         "no NVIDIA GPU can be used: the library and the loaded driver have different versions"),
        ("INIT=999", "gpu-silent", "no NVIDIA GPU can be used: NVML fails with code 999"),
        ("CRASHES", "gpu-silent", "NVML ends the process that calls it"),
    ],
)  # fmt: skip
def test_a_gpu_that_no_rank_can_use_is_refused_with_its_state(check: Check, state: str, code: str, text: str) -> None:
    (found,) = check(state)
    assert (found.code, found.message) == (code, text)
    assert found.hint


@pytest.mark.parametrize("state", ["MODE_CODE=3", "MODE=3", "COUNT=9"])
def test_an_unsupported_query_and_states_that_let_a_rank_in_are_no_problem(check: Check, state: str) -> None:
    assert check(state) == []


def test_a_gpu_outside_the_plan_does_not_refuse(check: Check) -> None:
    assert check("HANDLE=15", devices=(0, 2)) == []


def test_an_instance_of_a_gpu_is_what_the_variable_names(check: Check) -> None:
    assert check("MIG=1", CUDA_VISIBLE_DEVICES="MIG-4f8d") == []


def test_a_call_that_does_not_return_holds_the_start_for_the_limit(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_checks, "ANSWER_S", 0.3)
    (found,) = check("HANGS")
    assert (found.code, found.message) == ("gpu-silent", "the NVIDIA driver does not answer within 0.3 s")


def test_a_stranger_on_a_gpu_is_named_and_a_rank_of_a_run_is_left_to_its_lease(check: Check) -> None:
    words = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    for mark in ({}, {"PYLAUNCH_RUN": "7f3a"}):
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **mark}
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            found = check(f"HOLDER={process.pid}")
            process.kill()
        if mark:
            assert found == []
        else:
            (reason,) = found
            assert reason.code == "gpu-busy"
            assert reason.message.startswith(f"GPU 1 is in use by pid {process.pid} ({sys.executable} -c ")
            assert reason.message.endswith(", 20480 MiB")
            assert f"kill {process.pid}" in reason.hint


def test_a_process_that_has_gone_meanwhile_holds_nothing(check: Check) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert check(f"HOLDER={ended.pid}") == []


def test_without_nvml_the_kernel_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus/0000:07:00.0").mkdir(parents=True)
    monkeypatch.setattr(gpu_checks, "LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.setattr(gpu_checks, "DRIVER", str(tmp_path))
    asked = dataclasses.replace(task(tmp_path, ["true"]), devices=[0, 1])
    (found,) = gpu_checks.GpuCheck(asked).problems()
    assert found.code == "gpu-missing"
    assert gpu_checks.GpuCheck(dataclasses.replace(asked, devices=[0])).problems() == []
    assert gpu_checks.GpuCheck(dataclasses.replace(asked, checks_gpus=False)).problems() == []
