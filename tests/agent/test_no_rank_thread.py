"""A rank without its thread: Python sees nothing of pylaunch but variables."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from pylaunch.base.rank_environment import AGENT_VARIABLES, RUNTIME_PATH
from tests.agent.controller import Node, task
from tests.agent.test_examination import PYTHON, UP, program, views

INTERPRETER = """
import gc, json, os, signal, sys, threading
with open("/proc/self/status") as source:
    status = dict(line.split(":", 1) for line in source)
seen = {
    "modules": sorted(sys.modules), "meta_path": [str(each).partition(" at ")[0] for each in sys.meta_path],
    "path_hooks": [str(each).partition(" at ")[0] for each in sys.path_hooks],
    "threads": [[thread.name for thread in threading.enumerate()], len(os.listdir("/proc/self/task"))],
    "gc": [gc.get_threshold(), gc.isenabled(), gc.get_freeze_count(), len(gc.callbacks), gc.get_debug()],
    "handlers": {int(n): str(signal.getsignal(n)) for n in signal.valid_signals()},
    "signals": {name: status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt")},
    "hooks": [sys.excepthook is sys.__excepthook__, threading.excepthook is threading.__excepthook__, str(sys.gettrace())],
    "class of environ": str(type(os.environ)), "environ": dict(os.environ),
}
print("SEEN", json.dumps(seen), flush=True)
"""  # noqa: E501
"""Program that prints what a script can see of its interpreter."""


def seen(output: str) -> dict[str, Any]:
    """Return what INTERPRETER has printed to `output`."""
    (line,) = [line for line in output.splitlines() if line.startswith("SEEN ")]
    found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return found


def default_signals() -> None:
    """Undo what `nohup` and background jobs of a shell ignore."""
    for each in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)


def of_rank(node: Node, tmp_path: Path, run: str, *, rank_thread: bool) -> dict[str, Any]:
    words = [PYTHON, "-u", str(tmp_path / "train.py")]
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    controller = node.ran(task(tmp_path, words, run=run, env=env, rank_thread=rank_thread))
    return seen(controller.text("0.out"))


def test_without_the_thread_a_rank_is_a_plain_python(node: Node, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(INTERPRETER)
    without, with_thread = (of_rank(node, tmp_path, run, rank_thread=run == "with") for run in ("without", "with"))
    plain = seen(
        subprocess.run(
            [PYTHON, "-u", str(tmp_path / "train.py")],
            env=without["environ"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
            preexec_fn=default_signals,
        ).stdout
    )  # fmt: skip
    assert without == plain
    assert without["environ"].keys() ^ with_thread["environ"].keys() == {"PYLAUNCH_RANK_SOCKET"}
    assert without["environ"].keys() - {"PATH", "LANG", "HOME", "USER", "LOGNAME", "SHELL"} <= {
        *AGENT_VARIABLES, RUNTIME_PATH, "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DUMP_ON_TIMEOUT",
    }  # fmt: skip
    assert (without["threads"][1], with_thread["threads"][1]) == (1, 2)


def test_a_rank_without_the_thread_is_described_by_the_kernel_with_the_reason(node: Node, tmp_path: Path) -> None:
    words = program(tmp_path, f"import time\n{UP}time.sleep(600)")
    controller = node.up(task(tmp_path, words, rank_thread=False))
    view = views(controller)[0]
    assert (view.source, view.threads, view.pid) == ("", (), controller.pid(0))
    assert view.note == "no stacks: the run was started with --no-rank-thread"
    assert view.state
