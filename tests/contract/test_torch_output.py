"""Ranks print under pylaunch what they print under plain torchrun: no variable of ours makes torch warn.

This compares the version of torch that is installed here. For other versions, test_recorder_settings has the names of
variables that each knows.
"""

import os
import subprocess
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.ports import free_port
from tests.starts.cluster import ENDS_S, ended, made_of_directories, no_process_stays

SCRIPT = r"""
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
os.write(1, f"sum {total.item()}\n".encode())  # whole, where ranks share a pipe
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def elsewhere(torch_python: Path, tmp_path: Path) -> Path:
    """An interpreter that finds torch in another environment, as with PYTHONPATH or a package directory of a site."""
    packages = next(torch_python.parents[1].glob("lib/python3*/site-packages"))
    made = tmp_path / "env"
    subprocess.run([torch_python, "-m", "venv", "--without-pip", made], check=True)
    (next(made.glob("lib/python3*/site-packages")) / "other.pth").write_text(f"{packages}\n")
    return made / "bin" / "python"


def printed_by_plain_torchrun(python: Path, script: Path) -> list[str]:
    """The lines of two ranks, sorted."""
    words = [
        str(python),
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        f"--master-port={free_port()}",
        str(script),
    ]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=ENDS_S, check=True)
    return sorted((done.stdout + done.stderr).splitlines())


def test_ranks_print_the_same_as_under_plain_torchrun(torch_python: Path, elsewhere: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    expected = printed_by_plain_torchrun(torch_python, script)
    cluster = made_of_directories(tmp_path, ("n1",))
    where = ("-i", str(cluster.inventory), "--workdir", str(tmp_path), "--env", "OMP_NUM_THREADS=1")
    with no_process_stays(cluster):
        for framework, python in (("direct", torch_python), ("direct", elsewhere), ("torchrun", elsewhere)):
            logs = tmp_path / f"logs-{framework}-{python.parents[1].name}"
            words = (
                "--framework",
                framework,
                "--python",
                str(python),
                "--nproc-per-node",
                "2",
            )
            ended(cluster.begin("start", *where, *words, "--", str(script)), code=ExitCode.DONE)
            cluster.run("logs", *where[:2], "--save-logs", str(logs), code=ExitCode.DONE)
            lines = [line for file in logs.rglob("[01].*") for line in file.read_text().splitlines()]
            assert sorted(lines) == expected, (framework, python)
