"""Mounts of a container: arguments of bubblewrap for an image that has, or lacks, the places of the mounts."""

from pathlib import Path

import pytest

from pylaunch.agent.containers import mounts
from pylaunch.agent.containers.mounts import ContainerMount
from pylaunch.base.layout import NodeRoot
from pylaunch.protocol.node_task import ContainerTask, MountTask, NodeTask


@pytest.fixture
def image(tmp_path: Path) -> Path:
    root = tmp_path / "image"
    for name in ("usr/lib", "etc", "data", "home/old"):
        (root / name).mkdir(parents=True)
    (root / "etc" / "passwd").touch()
    (root / "lib").symlink_to("usr/lib")
    return root


def test_an_image_with_all_places_is_mounted_whole_and_read_only(image: Path) -> None:
    places = [
        ContainerMount("/scratch", "/data"),
        ContainerMount("/etc/passwd", "/etc/passwd", is_directory=False, read_only=True),
    ]
    assert mounts.words(str(image), places) == [
        "--ro-bind", str(image), "/",
        "--bind", "/scratch", "/data",
        "--ro-bind", "/etc/passwd", "/etc/passwd",
    ]  # fmt: skip


def test_the_nearest_directory_of_a_missing_place_is_made_again_in_memory(image: Path) -> None:
    asked = [ContainerMount("/scratch", "/data/deep/scratch"), ContainerMount("/dev", "/dev")]
    assert mounts.words(str(image), asked) == [
        "--tmpfs", "/",
        "--ro-bind", f"{image}/data", "/data",
        "--ro-bind", f"{image}/etc", "/etc",
        "--ro-bind", f"{image}/home", "/home",
        "--symlink", "usr/lib", "/lib",
        "--ro-bind", f"{image}/usr", "/usr",
        "--tmpfs", "/data",
        "--dev-bind", "/dev", "/dev",
        "--bind", "/scratch", "/data/deep/scratch",
        "--remount-ro", "/data",
        "--remount-ro", "/",
    ]  # fmt: skip


def test_a_place_that_is_a_link_in_the_image_is_replaced(image: Path) -> None:
    """A link could lead out of the image, and bubblewrap would follow it on the node."""
    words = mounts.words(str(image), [ContainerMount("/other", "/lib")])
    assert "--symlink" not in words
    assert words[-5:] == ["--bind", "/other", "/lib", "--remount-ro", "/"]


def test_a_home_that_the_image_lacks_is_in_memory(image: Path) -> None:
    words = mounts.words(str(image), [ContainerMount("", "/home/new")])
    assert words[-4:] == ["--tmpfs", "/home/new", "--remount-ro", "/home"]
    assert "--tmpfs" not in mounts.words(str(image), [ContainerMount("", "/home/old")])


def test_a_directory_of_the_node_over_one_in_memory_stays_writable(image: Path) -> None:
    asked = [ContainerMount("/scratch", "/data"), ContainerMount("/other", "/data/new/other")]
    assert "--remount-ro" not in mounts.words(str(image), asked)


def test_no_more_words_than_bubblewrap_takes(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [ContainerMount("/scratch", "/data/deep/scratch"), ContainerMount("/dev", "/dev")]
    needed = len(mounts.words(str(image), asked))
    monkeypatch.setattr(mounts, "MOST_WORDS", needed)
    assert len(mounts.words(str(image), asked)) == needed
    monkeypatch.setattr(mounts, "MOST_WORDS", needed - 1)
    with pytest.raises(mounts.MountError, match="too many entries"):
        mounts.words(str(image), asked)


def task(workdir: str, *asked: MountTask) -> NodeTask:
    return NodeTask(
        "7f3a", "n1", 0, workdir, [], {"HOME": "/home/me"}, [], None, [], [], 1.0, 1,
        container=ContainerTask("/image", list(asked)),
    )  # fmt: skip


def test_ranks_see_the_working_directory_the_node_root_and_the_mounts_of_the_user(tmp_path: Path) -> None:
    asked = MountTask(str(tmp_path), "/run", read_only=True)
    found = {place.target: place for place in mounts.places(task(str(tmp_path), asked), NodeRoot("/var/tmp/root"))}
    assert {"/dev", "/proc", "/sys", "/var/tmp/root", "/home/me", str(tmp_path)} <= found.keys()
    assert found["/run"] == ContainerMount(str(tmp_path), "/run", read_only=True)


def test_a_working_directory_that_only_the_image_has_is_the_image_s(tmp_path: Path) -> None:
    workdir = str(tmp_path / "workspace")
    assert workdir not in {place.target for place in mounts.places(task(workdir), NodeRoot("/root/p"))}


def test_a_mount_without_a_source_is_refused() -> None:
    with pytest.raises(mounts.MountError, match="--container-mount /none:/data: /none does not exist"):
        mounts.places(task("/", MountTask("/none", "/data")), NodeRoot("/root/p"))


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("{root}", "{root} is the directory of pylaunch"),
        ("{root}/runs", "{root} is the directory of pylaunch"),
        ("{above}", "{root}:{root} is in the mount /usr:{above}, and /usr/root does not exist"),
        ("/tmp/no/data", "/usr:/tmp/no/data is in the mount /tmp:/tmp, and /tmp/no/data does not exist"),
    ],
)
def test_a_mount_that_hides_the_directory_of_pylaunch_or_needs_a_new_directory_of_the_node_is_refused(
    tmp_path: Path, target: str, error: str
) -> None:
    (tmp_path / "root").mkdir()
    names = {"root": str(tmp_path / "root"), "above": str(tmp_path)}
    with pytest.raises(mounts.MountError) as refused:
        mounts.places(task("/", MountTask("/usr", target.format(**names))), NodeRoot(names["root"]))
    assert str(refused.value).endswith(error.format(**names))


def test_the_home_of_the_user_is_that_of_a_mount_above_it() -> None:
    found = mounts.places(task("/", MountTask("/usr", "/home")), NodeRoot("/root/p"))
    assert "/home/me" not in {place.target for place in found}
