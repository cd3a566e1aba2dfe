"""A start verifies GPUs by NVML on real nodes: only the driver's library is a stand-in."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.lab import Lab
from lab.nodes.node import LabNode
from pylaunch.errors import ExitCode
from tests.agent.test_gpu_checks import SOURCE

SCRIPT = "/tmp/gpu_start.py"
LIBRARY = "/usr/local/lib/libnvidia-ml.so.1"
JOB = ("--framework", "direct", "--workdir", "/tmp", "--python", "/usr/bin/python3")


def give(node: LabNode, directory: Path, *state: str) -> None:
    """Give `node` the driver of eight GPUs in `state`."""
    library = directory / node.name
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE), *(f"-D{each}" for each in state)], check=True
    )
    node.run("tee", LIBRARY, stdin=library.read_bytes())
    node.run("ldconfig")


@pytest.fixture
def gpus(lab: Lab, tmp_path: Path) -> Iterator[Path]:
    """Every node has eight healthy GPUs, as far as the driver says."""
    for node in lab:
        node.run("mount", "-t", "tmpfs", "tmpfs", "/proc/driver")
        node.run("mkdir", "/proc/driver/nvidia")
        give(node, tmp_path)
        node.write(SCRIPT, "print('a rank ran')\n")
    yield tmp_path
    for node in lab:
        node.run("umount", "/proc/driver")
        node.run("rm", LIBRARY)
        node.run("ldconfig")


def test_one_gpu_that_no_rank_can_use_refuses_the_start_of_all_nodes(lab: Lab, gpus: Path) -> None:
    inventory = lab.inventory.with_name("gpus.ini")
    inventory.write_text(f"{lab.inventory.read_text()}\n[cluster:vars]\ndevices=0-1\n")
    start = ("start", "-i", str(inventory), *JOB, "--", SCRIPT)
    healthy = lab.pylaunch(*start)
    assert healthy.ok, healthy.stderr
    assert healthy.stdout.count("a rank ran") == 6
    give(lab["n2"], gpus, "HANDLE=15")
    refused = lab.pylaunch(*start)
    assert (refused.returncode, refused.stdout) == (ExitCode.CLUSTER_NOT_READY, ""), refused.stderr
    assert "n2: GPU 1 has fallen off the bus" in refused.stderr
    in_spite = lab.pylaunch(*start[:3], "--skip", "gpu", *start[3:])
    assert in_spite.stdout.count("a rank ran") == 6, in_spite.stderr
