"""Options of a container: the job that they describe, and what is refused."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.checks.check_hosts import Needs, plan_check
from pylaunch.errors import UsageError
from pylaunch.features.containers import flags
from pylaunch.features.containers.local_image import registry_name
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Container, Framework, JobSpec
from pylaunch.protocol.node_task import MountTask
from pylaunch.runs.sync.tree import read_tree

JOB = JobSpec(("train.py",), Framework.DIRECT, "/work")


def given(image: str | None, *mounts: str) -> dict[str, Any]:
    return {"container": image, "container_mount": mounts, "nodes": 2}


def test_the_job_has_the_image_its_mounts_and_the_python_of_the_image() -> None:
    values = given("/images/torch.sqsh", "/data:/data:ro", "/scratch/me/:/scratch")
    job = flags.in_job(values)(JOB)
    mounts = (MountTask("/data", "/data", read_only=True), MountTask("/scratch/me", "/scratch"))
    assert job.container == Container("/images/torch.sqsh", mounts)
    assert job.python == "python3"
    assert values == {"nodes": 2}


def test_a_job_without_a_container_and_a_python_that_was_chosen_stay() -> None:
    assert flags.in_job(given(None))(JOB) is JOB
    chosen = JobSpec(("train.py",), Framework.DIRECT, "/work", python="/opt/conda/bin/python")
    assert flags.in_job(given("/image"))(chosen).python == "/opt/conda/bin/python"


@pytest.mark.parametrize(
    ("image", "mount", "error"),
    [
        (None, "/data:/data", "--container-mount /data:/data: the ranks have no container"),
        ("none", "/data:/data", "--container-mount /data:/data: the ranks have no container"),
        ("image.sqsh", "/data:/data", "--container image.sqsh: not a file of this machine, nor an absolute path"),
        ("/image", "/data", "--container-mount /data: expected SRC:DST or SRC:DST:ro"),
        ("/image", "/data:/data:rw", "--container-mount /data:/data:rw: expected SRC:DST or SRC:DST:ro"),
        ("/image", "/data:data", "--container-mount /data:data: expected an absolute path, got 'data'"),
        ("/image", "/data:/a/../..", "--container-mount /data:/a/../..: expected an absolute path"),
        ("/image", "/data:/", "--container-mount /data:/: a mount cannot replace the image"),
        ("/image", "/data://.", "--container-mount /data://.: a mount cannot replace the image"),
        ("/image", "/data://proc/", "--container-mount /data://proc/: /proc is that of the node"),
        ("/image", "/data:/./dev", "--container-mount /data:/./dev: /dev is that of the node"),
        ("/image", "/data:/sys/fs", "--container-mount /data:/sys/fs: /sys/fs is that of the node"),
        ("/image/../other", "/data:/data", "--container: expected an absolute path, got '/image/../other'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(image: str | None, mount: str, error: str) -> None:
    with pytest.raises(UsageError) as refused:
        flags.in_job(given(image, mount))(JOB)
    assert str(refused.value).startswith(error)


def test_the_hint_for_a_wrong_place_is_an_option_that_is_taken() -> None:
    for target in ("/", "/proc"):
        with pytest.raises(UsageError) as refused:
            flags.in_job(given("/image", f"/scratch:{target}"))
        assert refused.value.hint == "--container-mount /scratch:/data"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("localhost/torch:mine", "podman save localhost/torch:mine -o image.tar, then --container image.tar"),
        ("localhost/torch", "podman save localhost/torch -o image.tar, then --container image.tar"),
        ("containers-storage:torch:mine", "podman save torch:mine -o image.tar, then --container image.tar"),
        ("docker-archive:/srv/torch.tar", "--container /srv/torch.tar"),
        ("oci:layout:mine", "--container layout"),
        ("oras://ghcr.io/x/y:1", "apptainer pull image.sif oras://ghcr.io/x/y:1, then --container ./image.sif"),
    ],
)
def test_a_name_that_other_tools_use_for_their_own_store_leads_to_what_is_taken(word: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        flags.in_job(given(word))
    assert (refused.value.message, refused.value.hint) == (
        f"--container {word}: neither a file nor a name of a registry", hint,
    )  # fmt: skip
    for name in ("localhost:5000/torch:mine", "oci:5000/torch:mine", "ghcr.io/x/y:1"):
        assert registry_name(name) == f"docker://{name}"


def test_two_mounts_at_one_place_are_refused() -> None:
    with pytest.raises(UsageError, match="--container-mount: two mounts at /data"):
        flags.in_job(given("/image", "/a:/data", "/b:/data/"))


def test_a_mount_below_the_devices_and_an_image_with_any_name_are_taken() -> None:
    job = flags.in_job(given("/im age\nx;$(y)", "/big:/dev/shm"))(JOB)
    assert job.container == Container("/im age\nx;$(y)", (MountTask("/big", "/dev/shm"),))


def test_a_dry_run_shows_the_name_of_an_image_and_check_asks_what_any_file_needs() -> None:
    values = {**given("pytorch/pytorch:2.6.0"), "dry_run": True}
    assert flags.in_job(values)(JOB).container == Container("pytorch/pytorch:2.6.0")
    assert flags.in_job(given("pytorch/pytorch:2.6.0"))(JOB).container == Container("/dev/null")


def test_check_knows_the_size_of_an_image_for_which_nothing_has_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("torch.sqsh").write_bytes(b"hsqs")
    job = flags.in_job(given("./torch.sqsh"))(JOB)
    wanted = plan_check(Cluster((Host("n1", "10.0.0.1"),)), replace(job, nodes=1), Needs(), ()).wanted
    (room,) = wanted.rooms
    digest = hashlib.sha256(b"hsqs").hexdigest()
    assert (wanted.container, room.path, room.size) == ("/dev/null", f"{{node_root}}/images/{digest}", 4)


def test_an_image_in_the_tree_to_ship_is_no_part_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tree = tmp_path / "code"
    (tree / "in").mkdir(parents=True)
    (tree / "in" / "a [1]\\ .sqsh").touch()
    (tree / "train.py").touch()
    for image, shipped in (("code/in/a [1]\\ .sqsh", ["train.py"]), ("/other.sqsh", ["in/a [1]\\ .sqsh", "train.py"])):
        values = {**given(image), "sync": "code", "sync_exclude": (), "dry_run": True}
        flags.in_job(values)
        found = read_tree(tree, values["sync_exclude"])
        assert [file.path for file in found.manifest.files] == shipped


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Writes [container] into pylaunch.toml of the working directory."""
    monkeypatch.chdir(tmp_path)
    return lambda keys: (tmp_path / "pylaunch.toml").write_text(f"[container]\n{keys}\n")


def container(image: str | None, *mounts: str) -> Container | None:
    return flags.in_job(given(image, *mounts))(JOB).container


def test_settings_of_the_project_are_the_values_that_are_not_given(settings: Callable[[str], object]) -> None:
    settings('image = "/own.sqsh"\nmounts = ["/data:/data:ro"]')
    data, other = MountTask("/data", "/data", read_only=True), MountTask("/a", "/b")
    assert container(None) == Container("/own.sqsh", (data,))
    assert container(None, "/a:/b") == Container("/own.sqsh", (other,))
    assert container("/other.sqsh") == Container("/other.sqsh", (data,))
    assert container("none") is None
    settings('image = "none"\nmounts = ["/data:/data:ro"]')
    assert container(None) is None
    assert container("/other.sqsh") == Container("/other.sqsh", (data,))
    with pytest.raises(UsageError, match=r"^--container-mount /a:/b: the ranks have no container"):
        container(None, "/a:/b")
    settings('mounts = ["/data:/data:ro"]')
    assert container("none") is None


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ('image = "a.sqsh"', "pylaunch.toml: [container]: --container a.sqsh: not a file of this machine"),
        ('image = "/a"\nmounts = ["/d"]', "pylaunch.toml: [container]: --container-mount /d: expected SRC:DST"),
        ('mounts = ["/a:/b"]', "pylaunch.toml: [container]: --container-mount /a:/b: the ranks have no container"),
        ("image = 3", "pylaunch.toml: container.image: expected an image, got 3"),
        ('mounts = "/a:/b"', "pylaunch.toml: container.mounts: expected a list of SRC:DST or SRC:DST:ro, got '/a:/b'"),
        ('mount = ["/a:/b"]', "pylaunch.toml: container: unknown key: mount"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_place(keys: str, error: str, settings: Callable[[str], object]) -> None:
    settings(keys)
    with pytest.raises(UsageError) as refused:
        container(None)
    assert refused.value.message.startswith(error)
