"""Libraries of NVIDIA's driver that a container gets from its node."""

from pathlib import Path

import pytest

from pylaunch.agent.containers import gpu_driver
from pylaunch.protocol.node_task import ContainerTask, MountTask, NodeTask
from tests.agent.controller import task

CACHE = """\
1234 libs found in cache `/etc/ld.so.cache'
\tlibnvidia-ml.so.1 (libc6,x86-64) => {directory}/libnvidia-ml.so.1
\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64) => {directory}/libcuda.so.1
\tlibcuda.so (libc6,x86-64) => {directory}/libcuda.so
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the driver's libraries of a node, which only the cache of its loader names."""
    directory = tmp_path / "lib64"
    directory.mkdir()
    for name in ("libcuda.so.580.159.04", "libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4", "libc.so.6"):
        (directory / name).touch()
    (directory / "libcuda.so.1").symlink_to("libcuda.so.580.159.04")
    (directory / "libnvidia-ml.so.1").symlink_to("removed")
    (tmp_path / "cache").write_text(CACHE.format(directory=directory))
    (tmp_path / "ldconfig").write_text(f"#!/bin/sh\ncat {tmp_path}/cache")
    (tmp_path / "ldconfig").chmod(0o755)
    monkeypatch.setattr(gpu_driver, "LDCONFIG", str(tmp_path / "ldconfig"))
    monkeypatch.setattr(gpu_driver, "NVIDIA_VERSION", "/proc/self/stat")
    monkeypatch.setattr(gpu_driver, "DIRECTORIES", ())
    return directory


def asked(tmp_path: Path, *mounts: MountTask, **env: str) -> NodeTask:
    return task(tmp_path, env=env, container=ContainerTask("/image", list(mounts)))


def test_the_libraries_are_those_that_the_loader_of_the_node_finds(node: Path, tmp_path: Path) -> None:
    data = MountTask("/data", "/data")
    found = gpu_driver.with_driver(asked(tmp_path, data, LD_LIBRARY_PATH="/usr/local/cuda/compat"))
    assert found.container is not None
    names = ("libcuda.so.1", "libnvidia-nvvm.so.4", "libnvidia-ptxjitcompiler.so.1")
    driver = [MountTask(f"{node}/{name}", f"/.nvidia-driver/{name}", read_only=True) for name in names]
    assert found.container.mounts == [*driver, data]
    assert found.env == {"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/.nvidia-driver"}


def test_a_library_that_the_user_mounts_is_not_hidden(node: Path, tmp_path: Path) -> None:
    by_hand = MountTask("/opt/driver/libcuda.so.1", "/usr/lib/libcuda.so.1")
    found = gpu_driver.with_driver(asked(tmp_path, by_hand))
    assert found.container is not None
    assert [mount.target for mount in found.container.mounts] == [
        "/.nvidia-driver/libnvidia-nvvm.so.4", "/.nvidia-driver/libnvidia-ptxjitcompiler.so.1", by_hand.target,
    ]  # fmt: skip


def test_a_node_whose_driver_is_not_found_adds_nothing(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node / "libcuda.so.580.159.04").unlink()
    assert gpu_driver.with_driver(asked(tmp_path)) == asked(tmp_path)
    monkeypatch.setattr(gpu_driver, "NVIDIA_VERSION", "/nowhere")
    assert gpu_driver.with_driver(asked(tmp_path)) == asked(tmp_path)
