"""GPUs are checked through a stand-in of NVML in each state that a rank would not survive."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.run import gpu_checks
from pylaunch.agent.shared import cgroups, essentials, run_processes
from pylaunch.base.layout import NodeRoot
from pylaunch.runs.prepare.launch import gpu_refusals
from tests.agent.controller import task

SOURCE = Path(__file__).with_name("fake_nvml.c")
Look = Callable[..., gpu_checks.GpuCheck]
Check = Callable[..., list[protocol.Reason]]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    def with_state(
        *state: str, devices: tuple[int, ...] = (0, 1), skip: tuple[str, ...] = (), python: str = "", **env: str
    ) -> gpu_checks.GpuCheck:
        library = tmp_path / "libnvidia-ml.so.1"
        words = ["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE), *(f"-D{each}" for each in state)]
        subprocess.run(words, check=True)
        monkeypatch.setattr(gpu_checks, "LIBRARY", str(library))
        monkeypatch.setattr(gpu_checks, "DRIVER", str(tmp_path))
        monkeypatch.setattr(cgroups, "sees_all_pids", lambda: True)
        asked = task(tmp_path, ["true"], env=env)
        asked = dataclasses.replace(asked, devices=list(devices), gpu_checks=gpu_refusals(skip), python=python)
        return gpu_checks.GpuCheck(asked)

    return with_state


@pytest.fixture
def check(look: Look) -> Check:
    return lambda *state, **options: look(*state, **options).problems()


def test_eight_healthy_gpus_are_no_problem_and_their_models_are_facts(look: Look) -> None:
    begun = time.monotonic()
    found = look(devices=tuple(range(8)))
    assert found.problems() == []
    assert time.monotonic() - begun < 5, "with the compiler"
    assert found.models == "NVIDIA H200, 140 GiB"


@pytest.mark.parametrize(
    ("state", "code", "text"),
    [
        ("COUNT=1", "gpu-missing", "GPU 1 of the plan is missing: 1 answer"),
        ("HANDLE=15", "gpu-fault", "GPU 1 has fallen off the bus"),
        ("MODE_CODE=15", "gpu-fault", "GPU 1 has fallen off the bus"),
        ("HANDLE=16", "gpu-fault", "GPU 1 needs a reset"),
        ("HANDLE=4", "gpu-fault", "GPU 1 may not be opened by this user"),
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
    assert check("HANDLE=15", devices=(0, 2)) == [], "GPU 1 is not of the plan"


@pytest.mark.parametrize(
    ("variable", "missing"),
    [
        ("MIG-4f8d", ""),
        ("MIG-77", "MIG-77"),
        ("GPU-10c1", "GPU-10c1"),
        ("0,GPU-9", "GPU-9"),
        ("", ""),
        ("NoDevFiles,1", ""),
    ],
)
def test_the_gpus_that_a_variable_names_are_those_of_the_ranks(check: Check, variable: str, missing: str) -> None:
    found = check("MIG=1", CUDA_VISIBLE_DEVICES=variable)
    if variable == "GPU-10c1":
        assert [each.message for each in found] == [
            f"GPU {variable} is in MIG mode: a rank gets one of its instances, not the GPU"
        ]
    elif missing:
        assert [each.message for each in found] == [f"GPU {missing} of the plan is missing: 8 answer"]
    else:
        assert found == []


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("HANGS", "the NVIDIA driver does not answer within 0.3 s"),
        ("STUCK=1", "the NVIDIA driver does not answer for GPU 1 within 0.3 s"),
    ],
)
def test_a_call_that_does_not_return_holds_the_start_for_the_limit(
    check: Check, monkeypatch: pytest.MonkeyPatch, state: str, text: str
) -> None:
    monkeypatch.setattr(gpu_checks, "ANSWER_S", 0.3)
    (found,) = check(state)
    assert (found.code, found.message) == ("gpu-silent", text)


def test_gpus_that_initialize_slowly_are_waited_for_one_by_one(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "ANSWER_S", 1.0)
    assert check("SLOW=200000", devices=tuple(range(8))) == []


WAITS = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"


@contextlib.contextmanager
def holder(env: dict[str, str], *words: str) -> Iterator[int]:
    """The id that a process prints, by default its own; the process waits for the end of this."""
    words = words or (sys.executable, "-c", WAITS)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def test_a_stranger_on_a_gpu_is_named_and_a_rank_of_a_live_run_is_left_to_its_lease(
    check: Check, tmp_path: Path
) -> None:
    root = NodeRoot(str(tmp_path / "root"))
    directory = root.run("7f3a")
    Path(directory.path).mkdir(parents=True)
    mark = {"PYLAUNCH_RUN": "7f3a", "PYLAUNCH_ROOT": root.path}
    lock = run_processes.lock(directory)
    assert lock is not None
    with holder(mark) as pid:
        assert check(f"HOLDER={pid}") == []
        os.close(lock)
        (dead,) = check(f"HOLDER={pid}")
    with holder({}) as pid:
        (reason,) = check(f"HOLDER={pid}")
        (unknown,) = check(f"HOLDER={pid}", "USED=~0ull")
    with holder({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "n1"}) as other:
        (rank,) = check(f"HOLDER={other}")
    assert check(f"HOLDER={other}") == [], "it has gone meanwhile"
    assert rank.hint.startswith("pylaunch clean --limit n1 lists it if its launcher is gone; wait for it, or end it")
    assert (dead.code, reason.code) == ("gpu-busy", "gpu-busy")
    assert reason.message.startswith(f"GPU 1 is in use by pid {pid} ({sys.executable} -c ")
    assert reason.message.endswith(", 20480 MiB")
    assert reason.message.startswith(unknown.message), "without the memory that NVML does not know"
    assert reason.hint.startswith(f"wait for it, or end it on the node: kill {pid}")


def test_the_holder_of_a_leased_gpu_is_named_by_its_lease_alone(look: Look) -> None:
    assert look(f"HOLDER={os.getppid()}").problems(is_leased=True) == []


def without_nvml(directory: Path, monkeypatch: pytest.MonkeyPatch, *devices: int) -> list[str]:
    """The messages about `devices` on a node without NVML, whose files of the kernel are in `directory`."""
    monkeypatch.setattr(gpu_checks, "LIBRARY", str(directory / "none.so"))
    monkeypatch.setattr(gpu_checks, "DRIVER", str(directory / "driver"))
    monkeypatch.setattr(essentials, "PCI_DEVICES", str(directory / "pci"))
    monkeypatch.setattr(cgroups, "sees_all_pids", lambda: True)
    asked = dataclasses.replace(task(directory, ["true"]), devices=list(devices), gpu_checks=gpu_refusals(()))
    return [each.message for each in gpu_checks.GpuCheck(asked).problems()]


def test_without_nvml_the_kernel_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "driver/gpus/0000:07:00.0").mkdir(parents=True)
    assert without_nvml(tmp_path, monkeypatch, 0, 1) == ["GPU 1 of the plan is missing: 1 answer"]
    assert without_nvml(tmp_path, monkeypatch, 0) == []


def test_gpus_whose_driver_is_not_loaded_refuse_and_a_plan_for_a_machine_without_gpus_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert without_nvml(tmp_path, monkeypatch, 0) == []
    (tmp_path / "pci/0000:01:00.0").mkdir(parents=True)
    (tmp_path / "pci/0000:01:00.0/vendor").write_text("0x10de\n")
    (tmp_path / "pci/0000:01:00.0/class").write_text("0x030200\n")
    text = "no NVIDIA GPU can be used: 1 on the PCI bus, and the driver is not loaded"
    assert without_nvml(tmp_path, monkeypatch, 0) == [text]
    assert without_nvml(tmp_path, monkeypatch) == []


@pytest.mark.parametrize("skip", ["gpu", "gpu.free", "all"])
def test_what_a_start_skips_is_not_looked_at(check: Check, skip: str) -> None:
    held = f"HOLDER={os.getppid()}"
    assert [each.code for each in check(held, "MODE=2")] == ["gpu-mode", "gpu-busy"]
    left = ["gpu-mode"] if skip == "gpu.free" else []
    assert [each.code for each in check(held, "MODE=2", skip=(skip,))] == left


@pytest.mark.parametrize(
    ("driver", "content", "name", "message"),
    [
        (12080, "cuda: Optional[str] = '13.0'", "torch", "torch is for CUDA 13, and the driver knows 12.8"),
        (12020, "cuda = '12.8'", "torch", None),
        (12080, "cuda: Optional[str] = None", "torch", None),
        (12080, None, "jax_cuda13_plugin-0.8.0.dist-info", "JAX is for CUDA 13, and the driver knows 12.8"),
        (12080, None, "jax-0.8.0.dist-info", None),
    ],
)
def test_a_driver_older_than_the_cuda_of_the_ranks_is_refused(
    check: Check, tmp_path: Path, driver: int, content: str | None, name: str, message: str | None
) -> None:
    packages = tmp_path / "env/lib/python3.11/site-packages"
    (packages / name).mkdir(parents=True)
    if content is not None:
        (packages / name / "version.py").write_text(f"__version__ = '2.9.1+cu'\n{content}\nhip: Optional[str] = None\n")
    python = str(tmp_path / "env/bin/python")
    found = check(f"CUDA={driver}", python=python)
    assert [(each.code, each.message) for each in found] == ([] if message is None else [("gpu-cuda", message)])
    assert check(f"CUDA={driver}", python=python, LD_LIBRARY_PATH="/lib:/usr/local/cuda-13.0/compat") == []
