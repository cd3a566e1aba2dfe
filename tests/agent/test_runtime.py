"""pylaunch.runtime as ranks get it: out of the agent's archive, on their path, in any Python."""

import sys
from pathlib import Path

import pytest

from tests.agent.controller import Node, task
from tests.agent.test_archive import SUPPORTED

FOREIGN = """
import sys
before = set(sys.modules)
from pylaunch import runtime
loaded = {name.split(".")[0] for name in set(sys.modules) - before} - {"pylaunch"}
print(sorted(name for name in loaded if name not in getattr(sys, "stdlib_module_names", loaded)), runtime.rank())
"""


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(text)
    return str(path)


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


def test_ranks_find_the_hostfile_at_the_path_in_their_environment(node: Node, tmp_path: Path) -> None:
    asked = task(tmp_path, 'cat "$PYLAUNCH_HOSTFILE"', hostfile="10.0.0.1 slots=2\n10.0.0.2 slots=1\n")
    controller = node.ran(asked)
    assert controller.text("0.out") == asked.hostfile
