"""Ranks in containers of podman: what they see, images that differ, nodes that cannot run one, and what is left.

These starts need pylaunch.features.containers.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch import api
from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended
from tests.starts.containers import STORE, hide_programs, imported, in_container, kept, make_tree, slow_to_remove
from tests.waiting import wait_until

SEES = """\
import os, resource
assert os.path.exists("/marker") and not os.path.exists("/home"), os.listdir("/")
assert os.environ["OF_THE_IMAGE"] == "yes" and os.environ["PATH"].startswith("/nowhere:"), os.environ
assert os.stat("/dev/shm").st_dev == int(os.environ["SHM"])
kept = [os.getuid(), resource.getrlimit(resource.RLIMIT_NOFILE), open("/proc/self/cgroup").read()]
kept += [os.readlink(f"/proc/self/ns/{name}") for name in ("net", "ipc", "pid", "uts", "user", "cgroup")]
open(os.environ["RANK"] + ".seen", "w").write(repr(kept))
"""
STAYS = """\
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ["RANK"] + ".seen", "w").write(str(os.getpid()))
time.sleep(600)
"""


def words(cluster: DirectoryCluster, directory: Path, script: str, *flags: str) -> tuple[str, ...]:
    (directory / "train.py").write_text(script)
    job = ("--framework", "direct", "--workdir", str(directory), *flags)
    return ("start", "-i", str(cluster.inventory), *job, "--", "train.py")


def run(
    cluster: DirectoryCluster, directory: Path, *flags: str, code: ExitCode = ExitCode.CLUSTER_NOT_READY
) -> subprocess.CompletedProcess[str]:
    return cluster.run(*words(cluster, directory, SEES, *flags), code=code)


def test_ranks_see_the_image_and_keep_all_else_of_their_node(
    directories: Callable[..., DirectoryCluster], image: str, tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    shm = f"SHM={Path('/dev/shm').stat().st_dev}"
    done = run(cluster, tmp_path, *in_container(image), "--env", shm, code=ExitCode.DONE)
    assert "n[1-2]: clean" in done.stderr
    asked = ["/usr/bin/python3", "-c", SEES.replace("assert", "0 and").replace('os.environ["RANK"]', "'bare'")]
    subprocess.run(asked, check=True, cwd=tmp_path)
    for rank in range(2):
        assert (tmp_path / f"{rank}.seen").read_text() == (tmp_path / "bare.seen").read_text()
    assert kept() == ""


def test_a_node_is_heard_while_its_engine_takes_long_to_remove_the_container(
    directories: Callable[..., DirectoryCluster], image: str, tmp_path: Path
) -> None:
    cluster = directories("n1")
    slow_to_remove(cluster.nodes["n1"], 4)
    shm = f"SHM={Path('/dev/shm').stat().st_dev}"
    done = run(cluster, tmp_path, *in_container(image), "--env", shm, "--node-timeout", "3", code=ExitCode.DONE)
    assert "n1: clean" in done.stderr
    assert kept() == ""


@pytest.mark.parametrize("end", ["stop", "agent", "engine"])
def test_neither_ranks_that_ignore_signals_nor_a_container_outlive_a_stop_or_the_agent(
    directories: Callable[..., DirectoryCluster], image: str, tmp_path: Path, end: str
) -> None:
    cluster = directories("n1")
    started = cluster.begin(*words(cluster, tmp_path, STAYS, "--grace", "1", *in_container(image)))
    seen = tmp_path / "0.seen"
    wait_until(lambda: seen.exists() and seen.read_text() != "", "the rank runs")
    (agent,) = cluster.nodes["n1"].agents()
    rank = next(each for each in processes.mine() if each.pid == int(seen.read_text()))
    assert rank.parent == agent
    assert image in kept()
    if end == "stop":
        started.send_signal(signal.SIGINT)
    if end == "engine":  # Nobody is left who would remove the container but the proof of the end.
        store = str(Path(os.environ["CONTAINERS_STORAGE_CONF"]).parent)
        watchers = [each for each in processes.mine() if "conmon" in each.command and store in each.command]
        assert watchers
        for each in watchers:
            processes.send(each, signal.SIGKILL)
    if end != "stop":
        os.kill(agent, signal.SIGKILL)
    ended(started)
    wait_until(lambda: not [each for each in processes.mine() if each.pid == rank.pid], "the rank ends")
    if end == "stop":
        assert kept() == "", "the engine has removed the container before the run is over"
    wait_until(lambda: kept() == "", "the container is removed")


def test_python_starts_in_a_container_and_prints_nothing(
    directories: Callable[..., DirectoryCluster],
    image: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    cluster = api.load_cluster(directories("n1").inventory)
    job = api.Job(("sh", "-c", "test -e /marker"), api.Framework.COMMAND, str(tmp_path))
    inside = api.start(cluster, job, api.StartOptions(), container=image, container_mount=("/usr:/usr:ro",))
    bare = api.start(cluster, job, api.StartOptions())
    assert inside.wait(timeout_s=60).status is api.Status.DONE
    assert bare.wait(timeout_s=60).status is api.Status.FAILED
    assert capfd.readouterr() == ("", "")
    with pytest.raises(api.UsageError, match="--container-mount /a:/b: the ranks have no container"):
        api.check(cluster, job, container_mount=("/a:/b",))


ROLES = """\
[roles.trainer]
program = ["sh", "-c", "test -e /marker && until grep -q / {place}/bare; do sleep 0.1; done; touch {place}/trained"]
container = "{image}"
container-mount = "/usr:/usr:ro"
after = "watcher"
shared = true
[roles.watcher]
program = ["sh", "-c", "test ! -e /marker && cat /proc/self/mountinfo > {place}/bare && exec sleep 600"]
service = true
shared = true
"""


def test_a_trainer_runs_in_an_image_and_a_watcher_beside_it_without_one(
    directories: Callable[..., DirectoryCluster], image: str, tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    (tmp_path / "job.toml").write_text(ROLES.format(place=tmp_path, image=image))
    start = ("start", "-i", str(cluster.inventory), "--framework", "command", "--workdir", str(tmp_path))
    cluster.run(*start, str(tmp_path / "job.toml"), code=ExitCode.DONE)
    assert (tmp_path / "trained").exists()


def test_a_plan_has_the_container(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> None:
    cluster = directories("n1")
    job = ("-i", str(cluster.inventory), "--framework", "command", "--workdir", "/", "--dry-run", "--json")
    flags = ("--container", "/images/torch.sqsh", "--container-mount", "/data:/mnt/data:ro")
    shown = cluster.run("start", *job, *flags, "--", "true")
    document = documented(shown.stdout, "pylaunch start")
    mounts = [{"source": "/data", "target": "/mnt/data", "read_only": True}]
    assert document["plan"]["container"] == {"image": "/images/torch.sqsh", "mounts": mounts}


def test_each_node_that_cannot_make_the_container_is_refused_with_what_it_lacks(
    directories: Callable[..., DirectoryCluster], image: str, tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    hide_programs(cluster.nodes["n2"])
    done = run(cluster, tmp_path, *in_container(image), "--container-mount", "/no/data:/data")
    assert f"n2: podman or docker not found, which runs image {image}" in done.stderr
    assert "n1: --container-mount /no/data:/data: /no/data does not exist" in done.stderr
    check = ("check", "-i", str(cluster.inventory), "--only", "containers")
    assert cluster.run(*check).returncode == ExitCode.DONE
    found = cluster.run(*check, "--container", image, code=ExitCode.CLUSTER_NOT_READY)
    # The image has no shell without the programs of this machine, and a check has no mounts.
    assert f"FAIL  n1: podman does not run image {image}: " in found.stdout
    assert f"FAIL  n2: podman or docker not found, which runs image {image}  [containers.engine]" in found.stdout
    assert not list(tmp_path.glob("*.seen"))


def test_images_that_differ_refuse_the_start(
    directories: Callable[..., DirectoryCluster], image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = directories("n1", "n2", "n3")
    store = tmp_path / "storage.conf"
    store.write_text(STORE.format(directory=tmp_path / "store"))
    with monkeypatch.context() as patch:
        patch.setenv("CONTAINERS_STORAGE_CONF", str(store))
        imported(image, make_tree(tmp_path / "other"))
    python = cluster.nodes["n3"].path / "python3"
    python.write_text(python.read_text().replace("exec /usr", f"CONTAINERS_STORAGE_CONF={store} exec /usr"))
    done = run(cluster, tmp_path, *in_container(image))
    assert "hosts differ in the image of their ranks, so no rank was started" in done.stderr
    assert re.search(r"FAIL  n3: container image: .+, expected .+ as on n\[1-2\]  \[attestation\]\n", done.stderr)
    assert not list(tmp_path.glob("*.seen"))


def test_an_image_that_no_node_has_and_one_without_a_program_are_refused(
    directories: Callable[..., DirectoryCluster], image: str, tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    done = run(cluster, tmp_path, "--container", "localhost/absent:1")
    assert "n[1-2]: image localhost/absent:1: podman has no image localhost/absent:1" in done.stderr
    empty = run(cluster, tmp_path, "--container", image)
    assert f"n[1-2]: image {image}: podman made no container: " in empty.stderr
    without = run(cluster, tmp_path, *in_container(image), "--python", "/opt/conda/bin/python")
    assert "cannot run /opt/conda/bin/python in " in without.stderr
    assert "name the interpreter of the image: --python PATH" in without.stderr
    assert kept() == ""
