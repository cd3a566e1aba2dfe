"""A script that forks gets no warning because of the thread that answers the agent, and the thread is there again."""

import os
import subprocess
from pathlib import Path

import pytest

FORKS = 100
BUSY = 5
"""Forks on which a busy machine may take longer to remove a thread than a fork waits."""

SCRIPT = f"""
import os, sys, time, warnings
warned = []
warnings.simplefilter("always")
warnings.showwarning = lambda *words, **more: warned.append(str(words[0]))
def forks():
    for _ in range({FORKS}):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
forks()
until = time.monotonic() + 60
while len(os.listdir("/proc/self/task")) > 2 and time.monotonic() < until:
    time.sleep(0.01)  # The kernel may be slow to remove the thread of before the last fork.
print(len(warned), len(os.listdir("/proc/self/task")), *warned[:1])
"""


def interpreters() -> list[str]:
    """Return the Python of nodes, and those that pyenv has installed here that count threads before a fork."""
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    wanted = (path for minor in (8, 12) for path in sorted(installed.glob(f"3.{minor}.*/bin/python3")))
    return ["/usr/bin/python3", *map(str, wanted)]


@pytest.mark.parametrize("python", interpreters())
def test_a_fork_of_the_script_warns_of_no_thread(agent_archive: Path, tmp_path: Path, python: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    env = {
        "PATH": os.environ["PATH"], "PYTHONPATH": f"{agent_archive}/pylaunch/agent/in_rank",
        "PYLAUNCH_RANK_SOCKET": str(tmp_path / "0.sock"),
    }  # fmt: skip
    ended = subprocess.run([python, str(tmp_path / "train.py")], env=env, capture_output=True, text=True, check=True)
    warned, threads, *_ = ended.stdout.split(maxsplit=2)
    assert int(warned) <= BUSY, ended.stdout
    assert int(threads) == 2
    assert ended.stderr == ""
