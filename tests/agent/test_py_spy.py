"""Views of Python ranks without a helper: py-spy reads their stacks where it is installed."""

import sys
from pathlib import Path

import pytest

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.agent.test_examination import LONG_S, PYTHON, UP, program, stack, views
from tests.waiting import wait_until

ISOLATED = "import time\ndef train():\n    " + UP + "    time.sleep(600)\ntrain()"


def put_beside(tmp_path: Path, text: str | None) -> str:
    """An interpreter with this py-spy beside it, or with that of the tests; return the path of the interpreter."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "python3").symlink_to(PYTHON)
    if text is None:
        (directory / "py-spy").symlink_to(Path(sys.executable).with_name("py-spy"))
    else:
        (directory / "py-spy").write_text(text)
        (directory / "py-spy").chmod(0o755)
    return str(directory / "python3")


def test_an_isolated_python_is_read_by_py_spy_where_it_is_installed(node: Node, tmp_path: Path) -> None:
    words = [put_beside(tmp_path, None), "-I", *program(tmp_path, ISOLATED)[1:]]
    controller = node.up(task(tmp_path, words))

    def by_py_spy() -> list[protocol.RankView]:
        view = views(controller, len(controller.all(protocol.Examined)) + 1)[0]
        return [view] if stack(view) == ["sleep", "train", "<module>"][-len(stack(view)) :] and stack(view) else []

    (view,) = wait_until(by_py_spy, "stacks that py-spy has read")
    assert (view.source, view.pid, view.threads[0].is_main) == ("py-spy", controller.pid(0), True)
    assert view.threads[0].frames[0].path == str(tmp_path / "train.py")
    assert view.note == "no collectives: Python was started with -I, -E or -S, or with another PYTHONPATH"


@pytest.mark.parametrize(
    ("py_spy", "note"),
    [
        ("exit 1", "; py-spy cannot read it: it printed nothing: not permitted (ptrace)"),
        ("head -c 9000000 /dev/zero", "; py-spy cannot read it: "),
        ('echo \'[{"os_thread_id": 1, "thread_name": 5, "frames": []}]\'', "; py-spy cannot read it: expected"),
        ("exec sleep 600", "no stacks: no answer in 2 s"),
    ],
    ids=["refused", "endless", "other shape", "hangs"],
)
def test_a_py_spy_that_fails_leaves_an_isolated_python_to_the_kernel(
    node: Node, tmp_path: Path, py_spy: str, note: str
) -> None:
    words = [put_beside(tmp_path, f"#!/bin/sh\n{py_spy}\n"), "-I", *program(tmp_path, ISOLATED)[1:]]
    controller = node.up(task(tmp_path, words))
    view = views(controller, within_s=2.0 if "sleep" in py_spy else LONG_S)[0]
    assert (view.source, view.threads) == ("", ())
    assert note in view.note
    assert view.pid == controller.pid(0)
