"""Options of a container: the job that they describe, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import UsageError
from pylaunch.features import job_changes
from pylaunch.features.containers import flags
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
    named = flags.in_job(given("nvcr.io/nvidia/pytorch:24.12-py3"))(JOB)
    assert named.container == Container("nvcr.io/nvidia/pytorch:24.12-py3")
    assert job.python == "python3"
    assert values == {"nodes": 2}


def test_a_job_without_a_container_and_a_python_that_was_chosen_stay() -> None:
    assert job_changes(given(None))(JOB) is JOB
    chosen = JobSpec(("train.py",), Framework.DIRECT, "/work", python="/opt/conda/bin/python")
    assert flags.in_job(given("/image"))(chosen).python == "/opt/conda/bin/python"


@pytest.mark.parametrize(
    ("image", "mount", "error"),
    [
        (None, "/data:/data", "--container-mount /data:/data: the ranks have no container"),
        (
            "./image.sqsh",
            "/data:/data",
            "--container ./image.sqsh: neither an absolute path on the nodes nor the name of an image",
        ),
        ("/image", "/data", "--container-mount /data: expected SRC:DST or SRC:DST:ro"),
        ("/image", "/data:/data:rw", "--container-mount /data:/data:rw: expected SRC:DST or SRC:DST:ro"),
        ("/image", "/data:data", "--container-mount /data:data: expected an absolute path without a comma, got 'data'"),
        ("/image", "/data:/a/../..", "--container-mount /data:/a/../..: expected an absolute path"),
        ("/image", "/data:/", "--container-mount /data:/: a mount cannot replace the image"),
        ("/image", "/data://.", "--container-mount /data://.: a mount cannot replace the image"),
        ("/image", "/data://proc/", "--container-mount /data://proc/: /proc is that of the node"),
        ("/image", "/data:/./dev", "--container-mount /data:/./dev: /dev is that of the node"),
        ("/image", "/data:/sys/fs", "--container-mount /data:/sys/fs: /sys/fs is that of the node"),
        (
            "/image/../other",
            "/data:/data",
            "--container: expected an absolute path without a comma, got '/image/../other'",
        ),
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
        (
            "docker://ghcr.io/x/y:1",
            (
                "apptainer build image.sif docker://ghcr.io/x/y:1; "
                "pylaunch push image.sif /data/, then --container /data/image.sif"
            ),
        ),
        ("./torch.sif", "pylaunch push ./torch.sif /data/, then --container /data/torch.sif"),
    ],
)
def test_an_image_that_is_not_on_the_nodes_leads_to_the_commands_that_bring_it(
    word: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("torch.sif").touch()
    with pytest.raises(UsageError) as refused:
        flags.in_job(given(word))
    assert refused.value.hint == hint


def test_two_mounts_at_one_place_are_refused() -> None:
    with pytest.raises(UsageError, match="--container-mount: two mounts at /data"):
        flags.in_job(given("/image", "/a:/data", "/b:/data/"))


def test_a_mount_below_the_devices_and_an_image_with_any_name_are_taken() -> None:
    job = flags.in_job(given("/im age\nx;$(y)", "/big:/dev/shm"))(JOB)
    assert job.container == Container("/im age\nx;$(y)", (MountTask("/big", "/dev/shm"),))


def test_an_image_in_the_tree_to_ship_is_no_part_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tree = tmp_path / "code"
    (tree / "in").mkdir(parents=True)
    (tree / "in" / "a [1]\\ .sqsh").touch()
    (tree / "train.py").touch()
    for image, shipped in (
        (f"{tree}/in/a [1]\\ .sqsh", ["train.py"]),
        ("/other.sqsh", ["in/a [1]\\ .sqsh", "train.py"]),
    ):
        values = {**given(image), "sync": "code", "sync_exclude": (), "dry_run": True}
        flags.in_job(values)
        found = read_tree(tree, values["sync_exclude"])
        assert [file.path for file in found.manifest.files] == shipped
