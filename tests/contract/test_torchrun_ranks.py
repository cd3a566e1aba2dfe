"""Contract with torchrun: it starts our entry for each rank and sets LOCAL_RANK."""

import os
from pathlib import Path

from pylaunch import protocol
from pylaunch.runs.prepare import launch
from tests.agent.controller import Node, task
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
    (tmp_path / "agent.pyz").write_bytes(launch.build().data)
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
