"""Ranks in containers: what they see of image and node, images that differ, and nodes that cannot make a container.

These starts need pylaunch.features.containers.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch import api
from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended
from tests.starts.containers import hide_programs, image_of_this_machine, in_container

SEES = """\
import os
assert os.path.exists("/marker") and not os.path.exists("/home"), os.listdir("/")
try:
    open("/usr/written", "w")
    raise SystemExit("/usr can be written")
except OSError:
    assert os.path.exists("/dev/shm")
open(os.environ["RANK"] + ".seen", "w").write(f"{os.getuid()} {os.readlink('/proc/self/ns/pid')}")
"""
WITH_MOUNT = "exec unshare --mount sh -c 'mount --bind {} {} && exec /usr/bin/python3 \"$@\"' sh"


def run(cluster: DirectoryCluster, directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (directory / "train.py").write_text(SEES)
    words = ("--framework", "direct", "--workdir", str(directory), *flags)
    return ended(cluster.begin("start", "-i", str(cluster.inventory), *words, "--", "train.py"))


@pytest.mark.parametrize("kind", ["directory", "squashfs"])
def test_ranks_see_the_image_and_of_their_node_the_directory_of_work_and_the_devices(
    directories: Callable[..., DirectoryCluster], tmp_path: Path, kind: str
) -> None:
    cluster = directories("n1", "n2")
    image = image_of_this_machine(tmp_path / "image")
    if kind == "squashfs":
        if not (shutil.which("squashfuse") and shutil.which("mksquashfs") and os.access("/dev/fuse", os.W_OK)):
            pytest.skip("needs squashfuse and /dev/fuse")
        subprocess.run(["mksquashfs", image, f"{image}.sqsh"], check=True, stdout=subprocess.DEVNULL)
        image = Path(f"{image}.sqsh")
    done = run(cluster, tmp_path, *in_container(image))
    assert done.returncode == ExitCode.DONE, done.stderr
    assert "n[1-2]: clean" in done.stderr
    for rank in range(2):
        assert (tmp_path / f"{rank}.seen").read_text() == f"{os.getuid()} {Path('/proc/self/ns/pid').readlink()}"
    assert str(tmp_path) not in Path("/proc/mounts").read_text(), "the mounts are those of the container alone"
    roots = {str(node.path / "root") for node in cluster.nodes.values()}
    assert not [each for each in processes.mine() if any(processes.run_of(each.pid, root) for root in roots)]


def test_python_starts_in_the_container_of_the_project_and_prints_nothing(
    directories: Callable[..., DirectoryCluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    image = image_of_this_machine(tmp_path / "image")
    (tmp_path / "pylaunch.toml").write_text(f'[container]\nimage = "{image}"\nmounts = ["/usr:/usr:ro"]\n')
    monkeypatch.chdir(tmp_path)
    cluster = api.load_cluster(directories("n1").inventory)
    job = api.Job(("sh", "-c", "test -e /marker"), api.Framework.COMMAND, str(tmp_path))
    inside = api.start(cluster, job, api.StartOptions())
    bare = api.start(cluster, job, api.StartOptions(), container="none")
    assert inside.wait(timeout_s=60).status is api.Status.DONE
    assert bare.wait(timeout_s=60).status is api.Status.FAILED
    assert capfd.readouterr() == ("", "")
    with pytest.raises(api.UsageError, match="--container-mount /a:/b: the ranks have no container"):
        api.check(cluster, job, container="none", container_mounts=("/a:/b",))


ROLES = """\
[roles.trainer]
program = ["sh", "-c", "test -e /marker && grep -q / {place}/bare && touch {place}/trained"]
container = "{place}/image"
container-mount = "/usr:/usr:ro"
after = "watcher"
shared = true
[roles.second]
program = ["test", "-e", "/marker"]
container = "{place}/image"
container-mount = "/usr:/usr:ro"
shared = true
[roles.watcher]
program = ["sh", "-c", "test ! -e /marker && cat /proc/self/mountinfo > {place}/bare && exec sleep 600"]
ready = "file:{place}/bare"
service = true
shared = true
"""


def test_a_trainer_runs_in_an_image_and_a_watcher_beside_it_without_one(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    image_of_this_machine(tmp_path / "image")
    (tmp_path / "job.toml").write_text(ROLES.format(place=tmp_path))
    words = ("start", "-i", str(cluster.inventory), "--framework", "command", "--workdir", str(tmp_path))
    planned = cluster.run(*words, "--dry-run", str(tmp_path / "job.toml"))
    assert planned.stdout.count(f"    container: {tmp_path}/image with /usr:/usr:ro\n") == 2
    cluster.run(*words, str(tmp_path / "job.toml"), code=ExitCode.DONE)
    assert (tmp_path / "trained").exists()


def test_a_plan_has_the_container(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> None:
    cluster = directories("n1")
    job = ("-i", str(cluster.inventory), "--framework", "command", "--workdir", "/", "--dry-run", "--json")
    image = ("--container", "/images/torch.sqsh", "--container-mount", "/data:/mnt/data:ro")
    shown = cluster.run("start", *job, *image, "--", "true")
    document = documented(shown.stdout, "pylaunch start")
    mounts = [{"source": "/data", "target": "/mnt/data", "read_only": True}]
    assert document["plan"]["container"] == {"image": "/images/torch.sqsh", "mounts": mounts}


def test_each_node_that_cannot_make_the_container_is_refused_with_what_it_lacks(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    hide_programs(cluster.nodes["n2"])
    image = image_of_this_machine(tmp_path / "image")
    done = run(cluster, tmp_path, *in_container(image), "--container-mount", "/no/data:/data")
    assert done.returncode == ExitCode.CLUSTER_NOT_READY
    assert "n2: bwrap not found, which a container needs" in done.stderr
    assert "apt install bubblewrap" in done.stderr
    assert "n1: --container-mount /no/data:/data: /no/data does not exist" in done.stderr
    assert not list(tmp_path.glob("*.seen"))


@pytest.mark.skipif(os.getuid() != 0, reason="mounts another image for one node")
def test_images_that_differ_refuse_the_start(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> None:
    cluster = directories("n1", "n2", "n3")
    image = image_of_this_machine(tmp_path / "image")
    other = image_of_this_machine(tmp_path / "other")
    (other / "etc" / "changed").touch()
    python = cluster.nodes["n3"].path / "python3"
    python.write_text(python.read_text().replace("exec /usr/bin/python3", WITH_MOUNT.format(other, image)))
    done = run(cluster, tmp_path, *in_container(image))
    assert done.returncode == ExitCode.CLUSTER_NOT_READY, done.stderr
    assert "hosts differ in the image of their ranks, so no rank was started" in done.stderr
    assert re.search(r"FAIL  n3: container image: .+, expected .+ as on n\[1-2\]  \[attestation\]\n", done.stderr)
    assert not list(tmp_path.glob("*.seen"))


def test_an_image_that_no_node_has_and_one_without_a_program_are_refused(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    done = run(cluster, tmp_path, "--container", "/no/image.sqsh")
    assert done.returncode == ExitCode.CLUSTER_NOT_READY
    assert "n[1-2]: image /no/image.sqsh does not exist" in done.stderr
    assert "pylaunch push " in done.stderr
    image = image_of_this_machine(tmp_path / "image")
    empty = run(cluster, tmp_path, "--container", str(image))
    assert empty.returncode == ExitCode.CLUSTER_NOT_READY
    assert "the image needs a shell at /bin/sh, and what it loads" in empty.stderr
    without = run(cluster, tmp_path, *in_container(image), "--python", "/opt/conda/bin/python")
    assert without.returncode == ExitCode.CLUSTER_NOT_READY
    assert "/opt/conda/bin/python does not exist" in without.stderr
    assert "name the interpreter of the image: --python PATH" in without.stderr
