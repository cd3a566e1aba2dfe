"""A launcher imports its slow part while it waits at the gate; small modules take the place of torchrun's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pylaunch.agent import wire
from tests.agent.controller import Node, gone, task
from tests.waiting import wait_until

PART = """
import os, time
open("importing", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
open("imported", "w").close()
"""
RUN = """
import os, subprocess, sys
at = sys.argv.index("--no-python")
print(__name__, sys.argv[0] == __file__, sys.argv[1:at], os.environ["WHERE"], os.path.exists("imported"), flush=True)
sys.exit(subprocess.call(sys.argv[at + 1:], env={**os.environ, "LOCAL_RANK": "0", "RANK": "0"}))
"""


@pytest.fixture
def launched(tmp_path: Path) -> wire.NodeTask:
    """A task whose launcher cannot finish its import before the test creates the file `go`."""
    launcher = tmp_path / "torch/distributed/launcher"
    launcher.mkdir(parents=True)
    for package in (launcher, launcher.parent, launcher.parent.parent):
        (package / "__init__.py").touch()
    (launcher / "api.py").write_text(PART)
    (launcher.parent / "run.py").write_text(RUN)
    words = [sys.executable, "-m", "torch.distributed.run", "--master-port=@port@", "--no-python", wire.RANK_ENTRY]
    env = {"PATH": os.environ["PATH"], "WHERE": "n1:@port@"}
    return task(tmp_path, "echo rank", launcher=words, env=env)


def test_the_launcher_imports_before_the_release_and_runs_after_it(
    node: Node, tmp_path: Path, launched: wire.NodeTask
) -> None:
    controller = node.prepared(launched)
    (tmp_path / "go").touch()
    wait_until((tmp_path / "imported").exists, "the import")
    controller.send(wire.Follow({}, None), wire.Release(0.0, rendezvous_port=4711))
    controller.until(wire.Finished)
    assert controller.text("launcher.out") == "__main__ True ['--master-port=4711'] n1:4711 True\n"
    assert controller.text("0.out") == "rank\n"
    assert controller.ended(0).exit_code == 0
    assert controller.all(wire.LauncherEnded)[0].exit_code == 0


def test_neither_the_preparation_nor_the_release_waits_for_the_import(
    node: Node, tmp_path: Path, launched: wire.NodeTask
) -> None:
    controller = node.prepared(launched)
    controller.send(wire.Follow({}, None), wire.Release(0.0))
    controller.until(wire.Released)
    assert not (tmp_path / "imported").exists()
    (tmp_path / "go").touch()
    controller.until(wire.Finished)
    assert controller.text("0.out") == "rank\n"


def test_a_launcher_that_cannot_import_its_slow_part_starts_without_it(
    node: Node, tmp_path: Path, launched: wire.NodeTask
) -> None:
    (tmp_path / "torch/distributed/launcher/api.py").write_text("import absent")
    controller = node.started(launched)
    controller.until(wire.Finished)
    assert controller.text("launcher.out") == "__main__ True ['--master-port=@port@'] n1:@port@ False\n"
    assert controller.text("0.out") == "rank\n"


def test_a_launcher_that_fails_before_the_release_ends_the_start_with_its_last_line(
    node: Node, tmp_path: Path, launched: wire.NodeTask
) -> None:
    (tmp_path / "torch/distributed/launcher/api.py").write_text("raise RuntimeError('built for another CPU')")
    controller = node.prepared(launched)
    reason = "launcher ended with exit code 1 before the start: RuntimeError: built for another CPU"
    assert controller.until(wire.Stopping).reason == reason
    assert controller.until(wire.Finished).leftovers == []


def test_a_start_that_is_aborted_ends_the_import(node: Node, tmp_path: Path, launched: wire.NodeTask) -> None:
    controller = node.prepared(launched)
    wait_until((tmp_path / "importing").exists, "the begin of the import")
    supervisor = node.supervisor(controller)
    pids = list(map(int, Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()))
    assert pids
    controller.send(wire.Stop(0.0, "another node refused"))
    finished = controller.until(wire.Finished)
    assert finished.leftovers == []
    gone(*pids)
