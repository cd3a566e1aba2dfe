"""Contract with torchrun: it starts our entry for each rank and sets LOCAL_RANK."""

import os
import subprocess
from pathlib import Path

from pylaunch import protocol
from pylaunch.base.rank_environment import AGENT_VARIABLES, RUNTIME_PATH
from pylaunch.runs.prepare import archive
from tests.agent.controller import Node, task
from tests.agent.test_no_rank_thread import INTERPRETER, seen
from tests.ports import free_port

SCRIPT = """
import os, sys, time
print(os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["PYLAUNCH_RANK"], flush=True)
if os.environ["RANK"] == "1":
    open("go").read()
    sys.exit(9)
time.sleep(600)
"""


def test_the_rank_that_failed_is_distinguished_from_those_that_torchrun_and_the_agent_stopped(
    tmp_path: Path, torch_python: Path
) -> None:
    (tmp_path / "agent.pyz").write_bytes(archive.build().data)
    node = Node(tmp_path / "root", tmp_path / "agent.pyz")
    port = free_port()
    words = [str(torch_python), "-c", SCRIPT]
    launcher = [
        str(torch_python), "-m", "torch.distributed.run", "--nnodes=1", "--node-rank=0", "--nproc-per-node=3",
        "--master-addr=127.0.0.1", f"--master-port={port}", "--no-python",
        f"--log-dir={protocol.LAUNCHER_FILES}", protocol.RANK_ENTRY,
    ]  # fmt: skip
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    asked = task(tmp_path, words, words, words, launcher=launcher, hold_port=port, env=env)
    os.mkfifo(tmp_path / "go")
    controller = node.started(asked)
    while not all(controller.text(f"{rank}.out") for rank in range(3)):
        controller.until(protocol.Output)
    assert next((node.root / "runs/r1/launcher").iterdir()).name.startswith("none_")
    (tmp_path / "go").write_text("now")
    finished = controller.until(protocol.Finished)
    node.close()
    assert [controller.text(f"{rank}.out") for rank in range(3)] == ["0 3 0\n", "1 3 1\n", "2 3 2\n"]
    assert [controller.ended(rank).stopped for rank in range(3)] == [True, False, True]
    assert controller.ended(1).exit_code == 9
    assert finished.leftovers == []
    assert not (node.root / "runs/r1/launcher").exists()
    assert list((tmp_path / "tmp").glob("torchelastic_*")) == []


def test_without_its_thread_a_rank_is_as_plain_torchrun_starts_it(tmp_path: Path, torch_python: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(archive.build().data)
    (tmp_path / "train.py").write_text("import torch, torch.distributed\n" + INTERPRETER)
    node = Node(tmp_path / "root", tmp_path / "agent.pyz")
    words = [str(torch_python), "-u", str(tmp_path / "train.py")]
    port = free_port()
    torchrun = [
        str(torch_python), "-m", "torch.distributed.run", "--nnodes=1", "--node-rank=0", "--nproc-per-node=1",
        "--master-addr=127.0.0.1", f"--master-port={port}", "--no-python",
    ]  # fmt: skip
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    launcher = [*torchrun, f"--log-dir={protocol.LAUNCHER_FILES}", protocol.RANK_ENTRY]
    controller = node.ran(task(tmp_path, words, launcher=launcher, hold_port=port, env=env, rank_thread=False))
    node.close()
    found = seen(controller.text("0.out"))
    plain = seen(
        subprocess.run(
            [*torchrun, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        ).stdout
    )
    environment, of_torchrun = found.pop("environ"), plain.pop("environ")
    # importlib.metadata looks into the archive with pylaunch.runtime, the last entry of PYTHONPATH: a zip file.
    assert set(found.pop("modules")) ^ set(plain.pop("modules")) <= {"encodings.cp437"}
    assert found == plain
    own = {*AGENT_VARIABLES, RUNTIME_PATH, "USER", "LOGNAME", "SHELL"}
    own |= {name for name in environment if name.startswith(("TORCH_FR_", "TORCH_NCCL_DUMP_"))}
    assert environment.keys() - own == of_torchrun.keys() - own
    differing = {name for name in environment.keys() - own if environment[name] != of_torchrun[name]}
    assert differing <= {"HOME", "TORCHELASTIC_RUN_ID"}
