"""A script that asks for its backend gets that of the fallback, and logs the change."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from pylaunch import runtime
from pylaunch.runtime.fallback import VARIABLE


def test_without_a_fallback_the_script_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in (None, "", "nccl"):
        monkeypatch.delenv(VARIABLE, raising=False)
        if value is not None:
            monkeypatch.setenv(VARIABLE, value)
        assert runtime.backend() == "nccl"
    assert runtime.backend("mpi") == "nccl"
    assert capsys.readouterr().err == "pylaunch: nccl instead of mpi (PYLAUNCH_BACKEND)\n"


def test_the_change_is_logged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(VARIABLE, "gloo")
    assert runtime.backend("nccl") == "gloo"
    assert capsys.readouterr().err == "pylaunch: gloo instead of nccl (PYLAUNCH_BACKEND)\n"
    assert runtime.backend("gloo") == "gloo"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("asked", "on_cuda", "variable", "used"),
    [
        (None, True, "", "nccl"),
        (None, True, "gloo", "gloo"),
        ("nccl", True, "gloo", "nccl"),
        (None, False, "", "gloo"),
    ],
    ids=["default", "fallback", "the script insists", "no GPU"],
)
def test_init_uses_it_where_the_script_names_no_backend(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, on_cuda: bool, variable: str, used: str
) -> None:
    """torch is a fake: it has no GPU here."""
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(VARIABLE, variable)
    begun: list[str] = []
    torch, dist = ModuleType("torch"), ModuleType("torch.distributed")
    vars(torch)["cuda"] = SimpleNamespace(
        is_available=lambda: on_cuda, set_device=lambda _: None, device_count=lambda: 1
    )
    vars(torch)["distributed"] = dist
    vars(dist).update(
        is_initialized=lambda: False, HashStore=object, init_process_group=lambda name, **_: begun.append(name)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    runtime.init("torch", backend=asked)
    assert begun == [used]
