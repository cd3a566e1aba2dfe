"""Torch in a container on three real nodes: failures, a memory kill and a hang are found; nothing is left.

These starts need pylaunch.features.containers. The image is a squashfs on a directory that all nodes share; Python and
torch are mounted from the nodes.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.features.lab.cluster.lab import Lab
from pylaunch.features.lab.cluster.node_faults.faults import inject
from pylaunch.features.lab.cluster.node_faults.resource_faults import LittleMemory
from pylaunch.features.lab.cluster.nodes.node import LabNode
from pylaunch.transport.process import Completed
from tests.lab.controller import must_be_clean, newest, starting
from tests.starts.containers import image_of_this_machine
from tests.waiting import wait_until

pytestmark = pytest.mark.lab

INSTALL = """\
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap squashfuse
[ -e /dev/fuse ] || mknod /dev/fuse c 10 229
"""
TRAIN = """\
import os, sys, time
assert os.path.exists("/marker")
if sys.argv[1] == "memory":
    taken = [b"x" * (8 << 20) for _ in range(256)] if os.environ["RANK"] == "1" else time.sleep(600)
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
rank, how = dist.get_rank(), sys.argv[1]
def step():
    model(torch.ones(2, 4)).sum().backward()
for _ in range(3):
    step()
print("trained", rank, flush=True)
def waits_for_ever():
    time.sleep(600)
if rank == 1 and how == "fail":
    raise RuntimeError("loss is NaN at step 3")
if rank == 1 and how == "hang":
    waits_for_ever()
step()
"""


@pytest.fixture(scope="module")
def cluster(fresh_lab: Callable[..., Lab], torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Three nodes with bubblewrap and squashfuse, that share the image, the script and torch."""
    shared = tmp_path_factory.mktemp("containers")
    image = image_of_this_machine(shared / "image")
    subprocess.run(["mksquashfs", image, shared / "image.sqsh"], check=True, stdout=subprocess.DEVNULL)
    (shared / "train.py").write_text(TRAIN)
    lab = fresh_lab(3, share=(shared, torch_python.parents[2]), inventory=shared / "cluster.ini")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: node.run("sh", "-ec", INSTALL), lab))
    return lab


@pytest.fixture
def words(cluster: Lab, torch_python: Path) -> tuple[str, ...]:
    """Words of a start in the image."""
    shared, environment = cluster.inventory.parent, torch_python.parents[2]
    mounts = [word for path in ("/usr", str(environment)) for word in ("--container-mount", f"{path}:{path}:ro")]
    image = ("--container", str(shared / "image.sqsh"), *mounts)
    return ("--workdir", str(shared), "--python", str(torch_python), "--no-check", *image)


def start(lab: Lab, words: tuple[str, ...], how: str) -> Completed:
    inventory = ("start", "-i", str(lab.inventory))
    return lab.pylaunch(*inventory, *words, "--", "train.py", how, timeout_s=180)


def nothing_is_left(lab: Lab) -> None:
    """No process, no mount in the namespace of the node, and no mount point of a container is on any node."""
    must_be_clean(lab)
    for node in lab:
        assert "image.sqsh" not in node.run("cat", "/proc/1/mountinfo").stdout
        assert "squashfuse" not in node.run("cat", "/proc/1/mountinfo").stdout
        assert node.run("sh", "-c", "pgrep -x 'bwrap|squashfuse' || true").stdout == ""
        assert node.run("sh", "-c", "ls -d /var/tmp/pylaunch-0/runs/*/image || true").stdout == ""


def test_a_node_without_bubblewrap_and_one_with_another_image_are_refused(cluster: Lab, words: tuple[str, ...]) -> None:
    def away(node: LabNode) -> None:
        node.run("mv", "/usr/bin/bwrap", "/usr/bin/bwrap.away")

    image = cluster.inventory.parent / "image.sqsh"
    away(cluster["n2"])
    lacks = start(cluster, words, "run")
    cluster["n2"].run("mv", "/usr/bin/bwrap.away", "/usr/bin/bwrap")
    assert lacks.returncode == ExitCode.CLUSTER_NOT_READY, lacks.stderr
    assert "n2: bwrap not found, which a container needs" in lacks.stderr
    cluster["n3"].run("sh", "-ec", f"cp {image} /root/other; echo >> /root/other; mount --bind /root/other {image}")
    differs = start(cluster, words, "run")
    cluster["n3"].run("umount", str(image))
    assert differs.returncode == ExitCode.CLUSTER_NOT_READY, differs.stderr
    assert "hosts differ in the image of their ranks, so no rank was started" in differs.stderr
    assert " on n3\n" in differs.stderr
    assert "trained" not in lacks.stdout + differs.stdout
    nothing_is_left(cluster)


def test_a_rank_that_fails_and_one_that_the_kernel_ends_for_memory_are_named(
    cluster: Lab, words: tuple[str, ...]
) -> None:
    failed = start(cluster, words, "fail")
    assert failed.returncode == ExitCode.JOB_FAILED, failed.stderr
    assert all(f"trained {rank}" in failed.stdout for rank in range(3))
    assert "rank 1 on n2 exited with code 1" in failed.stderr
    assert "loss is NaN at step 3" in failed.stderr
    nothing_is_left(cluster)
    with inject(cluster["n2"], LittleMemory(512 << 20)):
        killed = start(cluster, words, "memory")
    assert killed.returncode == ExitCode.JOB_FAILED, killed.stderr
    assert "rank 1 on n2" in killed.stderr
    assert "out of memory" in killed.stderr.lower()
    nothing_is_left(cluster)


def test_a_rank_that_hangs_shows_its_stack_from_inside_and_a_stop_leaves_nothing(
    cluster: Lab, words: tuple[str, ...], tmp_path: Path
) -> None:
    with starting(cluster, tmp_path, *words, "--", "train.py", "hang") as started:
        started.says("| trained", times=3)
        run = newest(cluster)

        def hangs() -> bool:
            shown = json.loads(cluster.pylaunch("stacks", run, "--json", "--rank", "1", timeout_s=60).stdout)
            return "waits_for_ever" in json.dumps(shown)

        wait_until(hangs, "the stack of rank 1")
        stopped = cluster.pylaunch("stop", run, timeout_s=120)
        assert stopped.returncode == ExitCode.DONE, stopped.stderr
        assert "n[1-3]: clean" in stopped.stderr + stopped.stdout, stopped.stderr + stopped.stdout
        assert started.ends() == ExitCode.INTERRUPTED
    nothing_is_left(cluster)
