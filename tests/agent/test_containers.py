"""Containers of hostile, changing and slow images: what the agent joins, what it refuses, and that nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch.agent.containers import container as containers
from pylaunch.agent.containers.container import ContainerError, JoinableContainer
from pylaunch.agent.shared import processes
from pylaunch.base.layout import NodeRoot
from pylaunch.protocol.node_task import ContainerTask, MountTask, NodeTask
from tests.starts.containers import image_of_this_machine
from tests.waiting import wait_until

SHELL = "#!/usr/bin/python3\nimport sys\n{}\nsys.stdin.read()\n"
FUSE = shutil.which("squashfuse") and shutil.which("mksquashfs") and os.access("/dev/fuse", os.W_OK)
needs_fuse = pytest.mark.skipif(not FUSE, reason="needs squashfuse and /dev/fuse")

Make = Callable[..., JoinableContainer]


def below(pid: int) -> set[int]:
    """Return the processes that descend from `pid`."""
    return processes.descendants(processes.mine(), [pid])


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Make]:
    """Makes a container of an image. Whatever happened, none of its processes and mounts is there after the test."""
    root = NodeRoot(str(tmp_path / "root"))
    before = below(os.getpid())
    kept: list[JoinableContainer] = []

    def make(image: Path, *mounts: MountTask) -> JoinableContainer:
        asked = ContainerTask(str(image), [MountTask("/usr", "/usr", read_only=True), *mounts])
        task = NodeTask(
            "7f3a", "n1", 0, str(tmp_path), [], {"HOME": "/root"}, [], None, [], [], 1.0, 1, container=asked
        )  # fmt: skip
        directory = root.run(f"run-{len(kept)}")
        Path(directory.path).mkdir(parents=True)
        kept.append(containers.begun(task, root, directory))
        return kept[-1]

    yield make
    for each in kept:
        each.end()
    wait_until(lambda: below(os.getpid()) == before, "the processes of the container end")
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert not list(Path(root.path).glob("runs/*/image"))


def with_shell(directory: Path, body: str) -> Path:
    """Return an image whose /bin/sh does what `body` says, and then waits."""
    image = image_of_this_machine(directory)
    (image / "bin").unlink()
    (image / "bin").mkdir()
    (image / "bin" / "sh").write_text(SHELL.format(body))
    (image / "bin" / "sh").chmod(0o755)
    return image


def squashed(image: Path) -> Path:
    """Return a squashfs of `image`, beside it."""
    file = image.with_name(f"{image.name}.sqsh")
    subprocess.run(["mksquashfs", image, file], check=True, stdout=subprocess.DEVNULL)
    return file


def test_the_namespaces_are_those_that_bubblewrap_made_whatever_the_shell_of_the_image_prints(
    made: Make, tmp_path: Path
) -> None:
    image = with_shell(tmp_path / "image", f"print('{os.getpid()}\\n1\\nready', flush=True)")
    namespace = Path("/proc/self/ns/mnt")
    marker, inside = made(image).inside(lambda: (Path("/marker").exists(), str(namespace.readlink())))
    assert marker
    assert inside != str(namespace.readlink())


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("while True: sys.stdout.write('ready ' * 999)", "prints more than 64 KiB"),
        ("sys.exit('no space left\\x1b[2J')", "no space left"),
        ("print(1, flush=True)", "no answer within 1 s"),
    ],
)
def test_a_shell_that_floods_ends_or_is_silent_refuses_the_run(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, error: str
) -> None:
    monkeypatch.setattr(containers, "START_S", 1.0)
    with pytest.raises(ContainerError, match=error):
        made(with_shell(tmp_path / "image", body))


def test_an_image_that_answers_without_end_or_never_is_given_up(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = made(image_of_this_machine(tmp_path / "image"))
    with pytest.raises(ContainerError, match="more than 64 KiB"):
        container.inside(lambda: "x" * (1 << 20))
    monkeypatch.setattr(containers, "START_S", 0.2)
    with pytest.raises(ContainerError, match="no answer within"):
        container.inside(signal.pause)


def fake_opener(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let `text` run in place of squashfuse."""
    directory.mkdir()
    (directory / "squashfuse").write_text(f"#!/bin/sh\n{text}\n")
    (directory / "squashfuse").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@needs_fuse
def test_a_file_that_changes_while_it_is_mounted_is_refused(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = squashed(image_of_this_machine(tmp_path / "image"))
    fake_opener(tmp_path / "fake", monkeypatch, f'echo >> {file}\nexec {shutil.which("squashfuse")} "$@"')
    with pytest.raises(ContainerError, match="changed while it was mounted"):
        made(file)


@pytest.mark.parametrize(("text", "error"), [("exec sleep 600", "no answer within 1 s"), ("exit 1", "cannot mount")])
def test_a_file_that_cannot_be_mounted_is_refused_and_its_opener_ended(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    image_of_this_machine(tmp_path / "image")
    (tmp_path / "file").write_bytes(b"hsqs")
    fake_opener(tmp_path / "fake", monkeypatch, text)
    monkeypatch.setattr(containers, "START_S", 1.0)
    with pytest.raises(ContainerError, match=error):
        made(tmp_path / "file")


@needs_fuse
def test_nothing_of_a_container_outlives_its_agent(made: Make, tmp_path: Path) -> None:
    file = squashed(image_of_this_machine(tmp_path / "image"))
    reading, writing = os.pipe()
    agent = os.fork()
    if agent == 0:
        try:
            made(file)
            os.write(writing, b"up")
            signal.pause()
        finally:
            os._exit(1)
    assert os.read(reading, 2) == b"up"
    theirs = below(agent)
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in theirs}
    os.kill(agent, signal.SIGKILL)
    os.waitpid(agent, 0)
    assert {"bwrap", "squashfuse"} <= names
    wait_until(lambda: not theirs & {each.pid for each in processes.mine()}, "holder and opener end")
    next((tmp_path / "root").glob("runs/*/image")).rmdir()


@pytest.mark.parametrize("kind", ["directory", pytest.param("file", marks=needs_fuse)])
def test_two_runs_in_two_images_see_their_own_and_can_write_neither(made: Make, tmp_path: Path, kind: str) -> None:
    names = ["one two\nthree", "four"]
    for name in names:
        image = image_of_this_machine(tmp_path / name)
        (image / name).touch()
        container = made(squashed(image) if kind == "file" else image)
        assert container.inside(lambda: [each for each in names if Path("/", each).exists()]) == [name]
        for path in map(Path, ("/marker", "/etc/passwd", "/usr/written")):
            with pytest.raises(ContainerError, match=r"Read-only file system|Permission denied"):
                container.inside(path.touch)


def test_links_of_an_image_lead_to_no_place_of_the_node(made: Make, tmp_path: Path) -> None:
    image = image_of_this_machine(tmp_path / "image")
    outside = tmp_path / "outside"
    outside.mkdir()
    (image / "etc").rmdir()
    (image / "etc").symlink_to(outside)
    (image / "root").rmdir()
    (image / "root").symlink_to(f"/oldroot{outside}")
    (image / "data").symlink_to(outside)
    found = made(image, MountTask("/usr/lib", "/data/lib", read_only=True)).inside(
        lambda: (
            Path("/etc").is_symlink(),
            [str(each) for each in Path("/data").iterdir()],
            Path("/etc/passwd").read_text(),
        )
    )
    assert found == [False, ["/data/lib"], Path("/etc/passwd").read_text()]
    assert not list(outside.iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="makes a program of another user")
def test_a_program_with_setuid_gives_no_rights(made: Make, tmp_path: Path) -> None:
    image = image_of_this_machine(tmp_path / "image")
    shutil.copy("/usr/bin/id", image / "id")
    os.chown(image / "id", 65534, 65534)
    (image / "id").chmod(0o6755)
    found = made(image).inside(lambda: subprocess.run(["/id", "-u"], capture_output=True, text=True).stdout)
    assert found == f"{os.getuid()}\n"


def test_a_directory_with_more_entries_than_bubblewrap_takes_is_refused(made: Make, tmp_path: Path) -> None:
    image = image_of_this_machine(tmp_path / "image")
    for number in range(3000):
        (image / "root" / str(number)).touch()
    with pytest.raises(ContainerError, match="/root of the image, or a directory above it, has too many entries"):
        made(image, MountTask("/usr/lib", "/root/lib"))
