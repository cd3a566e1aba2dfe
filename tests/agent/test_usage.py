"""Usage of a node is sent to controllers that request it, and a hanging nvidia-smi blocks nothing."""

import os
import sys
import time
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.telemetry import NO_DEVICES, SMI_PERIOD_S, SMI_STALE_S, Smi
from tests.agent.controller import Node, task
from tests.waiting import DEADLINE_S, wait_until


def nvidia_smi(directory: Path, script: str) -> None:
    directory.mkdir()
    (directory / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "nvidia-smi").chmod(0o755)


def readings(node: Node, tmp_path: Path, count: int, *, has_gpu: bool = False) -> list[protocol.Usage]:
    controller = node.prepared(task(tmp_path, "sleep 60"))
    controller.send(protocol.Follow({}, [], usage_s=0.05), protocol.Release(0.0))
    found = [controller.until(protocol.Usage) for _ in range(count)]
    while has_gpu and found[-1].gpu is None:
        found.append(controller.until(protocol.Usage))
    controller.send(protocol.Stop(0.0, "seen enough"))
    assert controller.until(protocol.Finished).leftovers == []
    return found


def test_a_controller_that_requests_usage_gets_it(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path / "bin", "echo 80, 1024, 2048; echo 40, 0, 2048")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = readings(node, tmp_path, 20, has_gpu=True)
    assert all(0 <= each.cpu <= 1 for each in found)
    assert all(0 < each.memory_used < each.memory for each in found)
    assert (found[-1].gpu, found[-1].gpu_memory_used, found[-1].gpu_memory) == (0.6, 1024 << 20, 4096 << 20)


def test_an_answer_grows_old_and_a_driver_that_hangs_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    nvidia_smi(tmp_path / "bin", f"echo >> {asked}; [ -e {tmp_path}/hangs ] && exec sleep 600; echo 80, 1024, 2048")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    smi, answer = Smi(), (0.8, 1024 << 20, 2048 << 20)
    wait_until(lambda: smi.latest(1000.0) == answer, "an answer")
    assert asked.read_text() == "\n", "it is not asked again at once"
    (tmp_path / "hangs").touch()
    assert smi.latest(1000.0 + SMI_PERIOD_S) == answer
    assert smi.latest(1000.0 + SMI_STALE_S) == answer
    assert smi.latest(1000.1 + SMI_STALE_S) == NO_DEVICES
    smi.latest(2000.0)
    wait_until(lambda: asked.read_text() == "\n\n", "it is asked a second time, and no third")
    assert smi._output is not None
    smi._output.child.kill()
    smi._output.child.wait()


def test_usage_carries_the_steps_of_ranks_that_mark_them(node: Node, tmp_path: Path) -> None:
    mark = f"{sys.executable} -c 'from pylaunch import runtime; runtime.step(7, total=9)'; exec sleep 60"
    controller = node.prepared(task(tmp_path, "sleep 60", mark))
    controller.send(protocol.Follow({}, [], usage_s=0.05), protocol.Release(0.0))
    while not (steps := controller.until(protocol.Usage).steps):
        continue
    assert [(each.rank, each.step, each.total) for each in steps] == [(1, 7, 9)]
    assert abs(steps[0].time - time.time()) < DEADLINE_S
    controller.send(protocol.Stop(0.0, "seen enough"))
    controller.until(protocol.Finished)
