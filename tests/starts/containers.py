"""An image of podman with the programs of this machine, in which ranks start as in any other image."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.starts.cluster import Directory
from tests.waiting import wait_until

LINKS = ("bin", "sbin", "lib", "lib64")
SETTINGS = """\
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "{directory}/tmp"
"""
"""Of a machine that need not have the right to raise limits, systemd, and cgroup version 2."""

STORE = """\
[storage]
driver = "vfs"
graphroot = "{directory}/graph"
runroot = "{directory}/run"
"""

MADE = {"PATH": "/nowhere:/usr/bin:/bin", "OF_THE_IMAGE": "yes"}


def make_tree(directory: Path) -> Path:
    """Make a root directory whose /usr is empty: `in_container` mounts that of this machine."""
    for name in ("usr", "etc", "root"):
        (directory / name).mkdir(parents=True)
    for name in LINKS:
        (directory / name).symlink_to(Path("/", name).readlink())
    (directory / "marker").touch()
    return directory


def imported(name: str, tree: Path) -> str:
    """Import `tree` as image `name`, and return its id."""
    changes = [word for each in MADE.items() for word in ("--change", "ENV=" + "=".join(each))]
    archive = subprocess.run(["tar", "c", "-C", tree, "."], check=True, stdout=subprocess.PIPE).stdout
    words = ["podman", "import", "--quiet", *changes, "-", name]
    return subprocess.run(words, check=True, input=archive, stdout=subprocess.PIPE).stdout.decode().strip()


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """podman with settings and a store of its own. Skip where podman cannot run."""
    if os.getuid() != 0 or not (shutil.which("podman") and shutil.which("runc")):
        pytest.skip("needs root, podman and runc")
    if not all(Path("/", name).is_symlink() for name in LINKS):
        pytest.skip("needs programs in /usr alone")
    directory = tmp_path_factory.mktemp("podman")
    files, processes = (resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    settings = SETTINGS.format(directory=directory, files=min(1024, files), processes=min(4096, processes))
    (directory / "containers.conf").write_text(settings)
    (directory / "storage.conf").write_text(STORE.format(directory=directory))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(directory / "containers.conf"))
        patch.setenv("CONTAINERS_STORAGE_CONF", str(directory / "storage.conf"))
        yield


@pytest.fixture
def image(podman: None, tmp_path: Path) -> Iterator[str]:
    """Name of an image with the programs of this machine."""
    name = f"localhost/pylaunch-{os.getpid()}:test"
    found = imported(name, make_tree(tmp_path / "tree"))
    yield name
    wait_until(lambda: kept() == "", "agents of refused starts have removed their containers")
    subprocess.run(["podman", "rmi", "--force", found], check=True, stdout=subprocess.DEVNULL)


def kept() -> str:
    """Return the containers that podman knows."""
    return subprocess.run(
        ["podman", "ps", "--all", "--external", "--format", "{{.Image}}"], check=True, capture_output=True, text=True
    ).stdout


def in_container(image: str) -> tuple[str, ...]:
    """Return the flags of a start of ranks in `image`, with the programs of this machine."""
    return ("--container", image, "--container-mount", "/usr:/usr:ro")


def hide_programs(node: Directory) -> None:
    """Let a node find no program on PATH."""
    python = node.path / "python3"
    python.write_text(python.read_text().replace("exec /usr/bin/python3", "PATH=/nowhere exec /usr/bin/python3"))


def slow_to_remove(node: Directory, seconds: int) -> None:
    """Let podman take `seconds` at least for each container that a node removes."""
    engine = shutil.which("podman")
    programs = node.path / "programs"
    programs.mkdir()
    (programs / "podman").write_text(
        f'#!/bin/sh\n[ "$1" = rm ] || exec {engine} "$@"\n{engine} "$@" &\nsleep {seconds}\nwait $!\n'
    )
    (programs / "podman").chmod(0o755)
    python = node.path / "python3"
    python.write_text(python.read_text().replace("exec /usr", f'PATH="{programs}:$PATH" exec /usr'))
