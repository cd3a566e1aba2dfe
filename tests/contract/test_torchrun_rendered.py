"""Contract of torchrun with the script of `pylaunch render torchrun`: two nodes with 2 and 1 ranks meet and add up."""

import subprocess
from pathlib import Path

from pylaunch.features.render_files.scripts import torchrun_script
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from tests.ports import free_port

ENDS_S = 300
ADDS = """
import sys
import torch
from pylaunch import runtime
mine = runtime.init("torch")
total = torch.tensor([float(mine.rank + 1)])
torch.distributed.all_reduce(total)
with open(f"{sys.argv[1]}/{mine.rank}", "w") as file:
    file.write(f"{mine.launcher} {mine.world_size} {mine.local_rank} {mine.local_world_size} {total.item():g}")
torch.distributed.destroy_process_group()
"""


def test_commands_of_two_nodes_start_one_world(tmp_path: Path, torch_python: Path) -> None:
    (tmp_path / "train.py").write_text(ADDS)
    (tmp_path / "sums").mkdir()
    hosts = tuple(
        Host(f"n{len(devices)}", "127.0.0.1", devices=devices, interface="lo", python=str(torch_python))
        for devices in ((0, 1), (0,))
    )
    package = str(Path(__file__).parents[2])
    job = JobSpec(
        ("train.py", str(tmp_path / "sums")), Framework.TORCHRUN, str(tmp_path), rendezvous_port=free_port(),
        env={"PYTHONPATH": package, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    plan = plan_run(Cluster(hosts), job, "train")
    (tmp_path / "train.sh").write_text(torchrun_script(plan).text)
    running = [
        subprocess.Popen(("bash", "train.sh", str(node)), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for node in range(2)
    ]
    try:
        errors = [each.communicate(timeout=ENDS_S)[1] for each in running]
    finally:
        for each in running:
            each.kill()
    assert [each.returncode for each in running] == [0, 0], "\n".join(errors)
    found = {path.name: path.read_text() for path in (tmp_path / "sums").iterdir()}
    assert found == {"0": "torchrun 3 0 2 6", "1": "torchrun 3 1 2 6", "2": "torchrun 3 0 1 6"}
