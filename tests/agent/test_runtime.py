"""pylaunch.runtime as ranks get it: out of the agent's archive, on their path, in any Python."""

import signal
import sys
from pathlib import Path

import pytest

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.agent.test_archive import SUPPORTED

FOREIGN = """
import sys
before = set(sys.modules)
from pylaunch import runtime
loaded = {name.split(".")[0] for name in set(sys.modules) - before} - {"pylaunch"}
print(sorted(name for name in loaded if name not in getattr(sys, "stdlib_module_names", loaded)), runtime.rank())
"""
STUCK = """
import re, sys, time
from datetime import timedelta
from pylaunch.runtime.time_limit import time_limited
with time_limited("quick", timedelta(seconds=60)):
    pass
with time_limited("stuck", timedelta(seconds=1)):
    {blocks}
print("after", flush=True)
"""
SAVES = """
import os, signal, time
from pylaunch import runtime
runtime.on_checkpoint_signal(lambda: print("saved by", os.getpid() == owner, flush=True))
owner = os.getpid()
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    os.write(writing, b"x")
    time.sleep(60)
os.read(reading, 1)
os.kill(child, signal.SIGTERM)
print("child", os.waitpid(child, 0)[1], flush=True)
print("up", flush=True)
time.sleep(60)
"""


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("blocks", "reported"),
    [
        ("time.sleep(600)", "StageTimeoutError: stuck did not end within 1 s"),
        ("re.match('(a+)+$', 'a' * 64 + 'b')", "Timeout (0:00:03)!"),
    ],
    ids=["sleeps", "holds the GIL"],
)
def test_a_stage_with_a_limit_that_does_not_end_ends_its_rank(
    node: Node, tmp_path: Path, blocks: str, reported: str
) -> None:
    controller = node.ran(task(tmp_path, [sys.executable, script(tmp_path, STUCK.format(blocks=blocks))]))
    end = controller.ended(0)
    assert (end.exit_code, end.signal) == (1, None)
    stderr = controller.text("0.err")
    assert reported in stderr
    assert "script.py" in stderr


@pytest.mark.parametrize("python", [Path(sys.executable), *SUPPORTED], ids=str)
def test_every_supported_python_imports_it_and_nothing_foreign_with_it(
    python: Path, node: Node, tmp_path: Path
) -> None:
    controller = node.ran(task(tmp_path, [str(python), script(tmp_path, FOREIGN)]))
    assert controller.text("0.out") == "[] 0\n", controller.text("0.err")


def test_a_whole_pylaunch_that_is_installed_stays_importable_in_a_rank(node: Node, tmp_path: Path) -> None:
    text = "import pylaunch.runtime, pylaunch.cli.main; print(pylaunch.runtime.__file__)"
    controller = node.ran(task(tmp_path, [sys.executable, script(tmp_path, text)]))
    assert controller.text("0.out") == f"{node.archive}/pylaunch/runtime/__init__.py\n", controller.text("0.err")


def test_the_end_of_a_rank_carries_its_exception_and_its_last_step(node: Node, tmp_path: Path) -> None:
    text = "from pylaunch import runtime\nruntime.step(12)\nimport os\ndel os.nothing\n"
    path = script(tmp_path, text)
    controller = node.ran(task(tmp_path, [sys.executable, "-m", "pylaunch.runtime", path]))
    ended = controller.ended(0)
    assert (ended.exit_code, ended.step) == (1, 12)
    assert ended.error.startswith("AttributeError: ")
    assert ended.error.endswith(f"({Path(path).name}:4)")
    assert "runpy" not in controller.text("0.err")


def test_a_script_is_run_as_python_would_run_it(node: Node, tmp_path: Path) -> None:
    text = "import sys; print(__name__, sys.argv[1:], sys.path[0], __file__); sys.exit('failed')"
    path = script(tmp_path, text)
    words = [sys.executable, "-m", "pylaunch.runtime", path, "--a", "b c"]
    controller = node.ran(task(tmp_path, words))
    assert controller.text("0.out") == f"__main__ ['--a', 'b c'] {tmp_path} {path}\n"
    assert controller.text("0.err") == "failed\n"
    assert controller.ended(0).exit_code == 1


def test_a_module_is_run_as_python_would_run_it(node: Node, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/lib.py").write_text("")
    text = "import sys; from . import lib; print(__name__, sys.argv, sys.path[0], __package__); raise ValueError('no')"
    (tmp_path / "pkg/train.py").write_text(text)
    words = [sys.executable, "-m", "pylaunch.runtime", "-m", "pkg.train", "--a", "b c"]
    controller = node.ran(task(tmp_path, words))
    path = f"{tmp_path}/pkg/train.py"
    assert controller.text("0.out") == f"__main__ ['{path}', '--a', 'b c'] {tmp_path} pkg\n"
    assert controller.ended(0).error == "ValueError: no (pkg/train.py:1)"


def test_a_rank_that_is_stopped_saves_once_and_ends_by_the_signal_and_its_children_do_not_save(
    node: Node, tmp_path: Path
) -> None:
    controller = node.started(task(tmp_path, [sys.executable, script(tmp_path, SAVES)]))
    controller.until_text("0.out", "up")
    controller.send(protocol.Stop(60.0, "asked"))
    controller.until(protocol.Finished)
    assert controller.text("0.out") == f"child {signal.SIGTERM.value}\nup\nsaved by True\n"
    assert controller.ended(0).signal == signal.SIGTERM


def test_ranks_find_the_hostfile_at_the_path_in_their_environment(node: Node, tmp_path: Path) -> None:
    asked = task(tmp_path, 'cat "$PYLAUNCH_HOSTFILE"', hostfile="10.0.0.1 slots=2\n10.0.0.2 slots=1\n")
    controller = node.ran(asked)
    assert controller.text("0.out") == asked.hostfile
