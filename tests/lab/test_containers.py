"""Torch in a container on three real nodes that a role prepares: a hang is found. Bare stories run in containers, too.

These starts need pylaunch.features.containers. The image is a squashfs on a directory that all nodes share; Python and
torch are mounted from the nodes.
"""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.controller import must_be_clean, newest, starting
from tests.starts.containers import image_of_this_machine, sif_of
from tests.waiting import wait_until

ROLE = "container_engine"
FILE = f"/etc/tmpfiles.d/90-pylaunch-{ROLE}.conf"
TRAIN = """\
import os, sys, time
assert os.path.exists("/marker")
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
if rank == 1 and how == "hang":
    waits_for_ever()
step()
"""


@dataclass(frozen=True)
class Prepared:
    """Three nodes that the role prepared for containers, and what was before."""

    lab: Lab
    words: tuple[str, ...]
    """Words of a start in the image."""

    refused: Completed
    """The start on nodes without bubblewrap."""

    repaired: Completed
    """`check --fix` afterwards."""


@pytest.fixture(scope="module")
def prepared(fresh_lab: Callable[..., Lab], torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Nodes that share the image, the script and torch."""
    shared = tmp_path_factory.mktemp("containers")
    image = image_of_this_machine(shared / "image")
    subprocess.run(["mksquashfs", image, shared / "image.sqsh"], check=True, stdout=subprocess.DEVNULL)
    (shared / "train.py").write_text(TRAIN)
    lab = fresh_lab(3, share=(shared, torch_python.parents[2]), inventory=shared / "cluster.ini")
    (shared / "group_vars").mkdir()
    (shared / "group_vars" / "all.yml").write_text(f"{ROLE}_enabled: true\n")
    environment = torch_python.parents[2]
    mounts = [word for path in ("/usr", str(environment)) for word in ("--container-mount", f"{path}:{path}:ro")]
    container = ("--container", str(shared / "image.sqsh"), *mounts)
    words = ("--workdir", str(shared), "--python", str(torch_python), "--no-check", *container)
    refused = start(lab, words, "run")
    check = ("check", "-i", str(lab.inventory), "--only", "containers", "--fix", "--yes", *container)
    return Prepared(lab, words, refused, lab.pylaunch(*check, timeout_s=300))


@pytest.fixture
def cluster(prepared: Prepared) -> Lab:
    """The nodes."""
    return prepared.lab


@pytest.fixture
def words(prepared: Prepared) -> tuple[str, ...]:
    """Words of a start in the image."""
    return prepared.words


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


def test_nodes_without_bubblewrap_are_refused_and_the_role_brings_what_a_start_needs(prepared: Prepared) -> None:
    lab, inventory = prepared.lab, ("-i", str(prepared.lab.inventory), "--roles", ROLE)
    assert prepared.refused.returncode == ExitCode.CLUSTER_NOT_READY, prepared.refused.stderr
    assert "n[1-3]: bwrap and squashfuse not found, which a container needs" in prepared.refused.stderr
    assert prepared.repaired.returncode == ExitCode.DONE, prepared.repaired.stderr
    assert f"n[1-3]: {ROLE} (for containers.engine)" in prepared.repaired.stderr
    assert lab.pylaunch("provision", *inventory).stderr.startswith("3 hosts: nothing to change")
    verified = lab.pylaunch("verify", *inventory, timeout_s=120)
    assert verified.returncode == ExitCode.DONE, verified.stdout
    assert "skip" not in verified.stdout
    done = start(lab, prepared.words, "run")
    assert done.returncode == ExitCode.DONE, done.stderr
    reset = lab.pylaunch("provision", *inventory, "--reset", "--yes")
    assert reset.ok, reset.stderr
    assert lab["n1"].run("find", "/etc", "-name", f"*{ROLE}*").stdout == ""
    again = lab.pylaunch("provision", *inventory, "--plan").stdout
    assert again.splitlines()[1].split() == ["n[1-3]", ROLE, FILE, "missing"]
    nothing_is_left(lab)


def test_a_sif_is_an_image_too(cluster: Lab, words: tuple[str, ...]) -> None:
    shared = cluster.inventory.parent
    image = str(shared / "image.sqsh")
    (shared / "saved.sif").write_bytes(sif_of(Path(image).read_bytes()))
    done = start(cluster, tuple(word.replace(image, f"{shared}/saved.sif") for word in words), "run")
    assert done.returncode == ExitCode.DONE, done.stderr
    nothing_is_left(cluster)


def test_a_user_other_than_root_starts_ranks_in_a_directory_and_in_files(cluster: Lab) -> None:
    shared = cluster.inventory.parent
    for node in cluster:
        node.run("sh", "-ec", f"cp -r {shared}/image {shared}/image.sqsh /srv; chmod -R a+rX /srv")
    (shared / "user.ini").write_text(cluster.inventory.read_text().replace("ansible_user=root", "ansible_user=ml"))
    inventory = ("-i", str(shared / "user.ini"))
    words = ("--workdir", "/", "--framework", "command", "--no-check", "--container-mount", "/usr:/usr:ro")
    for image in ("/srv/image", "/srv/image.sqsh"):
        container = ("--container", image)
        checked = cluster.pylaunch("check", *inventory, "--only", "containers", *container)
        assert checked.returncode == ExitCode.DONE, checked.stdout
        done = cluster.pylaunch(
            "start", *inventory, *words, *container, "--", "sh", "-c", "test -e /marker && id -un", timeout_s=120
        )
        assert done.returncode == ExitCode.DONE, done.stderr
        assert done.stdout.count("| ml\n") == 3
        assert "n[1-3]: clean" in done.stderr
    for node in cluster:
        assert node.run("sh", "-c", "pgrep -x 'bwrap|squashfuse' || true").stdout == ""
    cluster["n3"].run("chmod", "600", "/dev/fuse")
    refused = cluster.pylaunch("check", *inventory, "--only", "containers", "--container", "/srv/image.sqsh")
    cluster["n3"].run("chmod", "666", "/dev/fuse")
    assert "n3: /dev/fuse cannot be opened, which mounts an image: Permission denied" in refused.stdout


def test_a_node_with_another_image_is_refused(cluster: Lab, words: tuple[str, ...]) -> None:
    image = cluster.inventory.parent / "image.sqsh"
    cluster["n3"].run("sh", "-ec", f"cp {image} /root/other; echo >> /root/other; mount --bind /root/other {image}")
    differs = start(cluster, words, "run")
    cluster["n3"].run("umount", str(image))
    assert differs.returncode == ExitCode.CLUSTER_NOT_READY, differs.stderr
    assert "hosts differ in the image of their ranks, so no rank was started" in differs.stderr
    assert "FAIL  n3: container image: " in differs.stderr
    assert "trained" not in differs.stdout
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
