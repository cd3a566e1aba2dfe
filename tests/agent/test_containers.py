"""Containers of hostile, changing and slow images: what the agent joins, what it refuses, and that nothing is left."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.containers import container as containers
from pylaunch.agent.containers import examined, gpu_driver
from pylaunch.agent.containers.container import ContainerError, JoinableContainer
from pylaunch.agent.run import node_checks, program_checks
from pylaunch.agent.shared import processes
from pylaunch.base.layout import NodeRoot
from pylaunch.protocol.node_task import ContainerTask, MountTask
from tests.agent.controller import task
from tests.starts.containers import image_of_this_machine, sif_of
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
        of_node = task(tmp_path, run="7f3a", env={"HOME": "/root"}, container=asked)
        directory = root.run(f"run-{len(kept)}")
        Path(directory.path).mkdir(parents=True, exist_ok=True)
        kept.append(containers.start_container(of_node, root, directory))
        return kept[-1]

    yield make
    for each in kept:
        each.end()
    wait_until(lambda: below(os.getpid()) == before, "the processes of the container end")
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert not list(Path(root.path).glob("runs/*/image"))


def test_an_image_is_sent_where_it_is_missing_and_not_where_it_is_none(made: Make, tmp_path: Path) -> None:
    with pytest.raises(ContainerError) as missing:
        made(tmp_path / "image")
    assert missing.value.reason.hint == f"pylaunch push IMAGE {tmp_path / 'image'}"
    (tmp_path / "other").write_text("MZ")
    with pytest.raises(ContainerError) as none:
        made(tmp_path / "other")
    assert none.value.reason.hint == "pylaunch help containers"


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


def with_sif(image: Path) -> Path:
    """Return a SIF of `image`, beside it."""
    file = squashed(image)
    file.write_bytes(sif_of(file.read_bytes()))
    return file


MAKES: dict[str, Callable[[Path], Path]] = {"directory": lambda image: image, "file": squashed, "sif": with_sif}


def test_the_namespaces_are_those_that_bubblewrap_made_whatever_the_shell_of_the_image_prints(
    made: Make, tmp_path: Path
) -> None:
    image = with_shell(tmp_path / "image", f"print('{os.getpid()}\\n1\\nready', flush=True)")
    namespace = Path("/proc/self/ns/mnt")
    marker, inside = made(image).inside(lambda: (Path("/marker").exists(), str(namespace.readlink())))
    assert marker
    assert inside != str(namespace.readlink())


@pytest.mark.parametrize(
    ("body", "within_s", "error"),
    [
        ("while True: sys.stdout.write('ready ' * 999)", 60, "prints more than 64 KiB"),
        ("sys.exit('no space left\\x1b[2J')", 60, "no space left"),
        ("print(1, flush=True)", 1, "no answer within 1 s"),
    ],
)
def test_a_shell_that_floods_ends_or_is_silent_refuses_the_run(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, within_s: float, error: str
) -> None:
    monkeypatch.setattr(containers, "START_S", within_s)
    with pytest.raises(ContainerError, match=error):
        made(with_shell(tmp_path / "image", body))


def test_an_image_that_answers_without_end_or_never_is_given_up(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = made(image_of_this_machine(tmp_path / "image"))
    with pytest.raises(ContainerError, match="more than 64 KiB"):
        container.inside(lambda: "x" * (1 << 20))
    monkeypatch.setattr(containers, "ASK_S", 0.2)
    with pytest.raises(ContainerError, match="no answer within"):
        container.inside(signal.pause)


def test_an_interpreter_that_never_ends_is_named_and_no_process_of_it_stays(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program_checks.LOOK_S < containers.ASK_S
    monkeypatch.setattr(program_checks, "LOOK_S", 0.5)
    image = image_of_this_machine(tmp_path / "image")
    (tmp_path / "asked").touch()
    (image / "python3").write_text(f"#!/bin/sh\necho >> {tmp_path}/asked\nexec sleep 78\n")
    (image / "python3").chmod(0o755)
    container = made(image)
    words = ["python3", "-m", "torch.distributed.run"]
    asked = task(tmp_path, launcher=words, python="python3", env={"PATH": "/:/usr/bin"})
    (code, text), *others = container.inside(
        lambda: [(each.code, each.message) for each in node_checks.of_programs(asked)]
    )
    assert (code, text) == ("interpreter-broken", "/python3 does not run on this node: no end within 0.5 s")
    assert not others
    assert (tmp_path / "asked").read_text() in ("", "\n"), "an interpreter that never ends is waited for once"
    monkeypatch.setattr(program_checks, "LOOK_S", 60.0)
    monkeypatch.setattr(containers, "ASK_S", 0.5)
    with pytest.raises(ContainerError, match="no answer within"):
        container.inside(lambda: list(node_checks.of_programs(asked)))
    wait_until(lambda: ["sleep", "78"] not in commands(), "the interpreter ends")


def test_a_launcher_on_path_of_the_image_whose_package_is_missing_is_refused(made: Make, tmp_path: Path) -> None:
    image = image_of_this_machine(tmp_path / "image")
    (image / "python3").symlink_to("/usr/bin/python3")
    words = ["python3", "-m", "no_such_package.run"]
    asked = task(tmp_path, launcher=words, python="python3", env={"PATH": "/:/usr/bin"})
    found = made(image).inside(lambda: [each.message for each in node_checks.of_programs(asked)])
    assert found == ["/python3 has no module no_such_package, of which no_such_package.run is a part"]


def commands() -> list[list[str]]:
    """Return the command lines of the processes of this user."""
    found = []
    for process in processes.mine():
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[:-1])
    return found


def test_the_process_that_answers_ends_there_also_without_an_answer(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would continue as another agent, on the same connections, until it is killed."""
    container, test = made(image_of_this_machine(tmp_path / "image")), os.getpid()
    read_until = containers._read_until

    def when_it_has_ended(reading: int, *rest: Any) -> bytes:
        text = read_until(reading, *rest)
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        return text

    monkeypatch.setattr(containers, "_read_until", when_it_has_ended)
    try:
        with pytest.raises(ValueError, match="Expecting value"):
            container.inside(lambda: {"an answer that JSON has no form for"})
    finally:
        if os.getpid() != test:
            (tmp_path / "another").touch()
            os._exit(1)
    assert not (tmp_path / "another").exists()


@pytest.mark.parametrize("call", ["fork", "makedirs"])
def test_a_node_without_room_for_a_container_refuses_the_run_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    (tmp_path / "image").write_bytes(b"hsqs")
    root, opened = NodeRoot(str(tmp_path / "root")), descriptors()
    directory = root.run("r1")
    Path(directory.path).mkdir(parents=True)
    monkeypatch.setattr(containers, "path_of", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, call, lambda *_, **__: raised(OSError(errno.EAGAIN, "no room")))
    asked = task(tmp_path, ["true"], container=ContainerTask(str(tmp_path / "image"), []))
    container, (reason,), _ = examined.prepared(asked, root, directory)
    assert (container, reason.code) == (None, "container")
    assert reason.message == f"the container cannot be made: [Errno {errno.EAGAIN}] no room"
    assert not list(Path(directory.path).iterdir())
    assert descriptors() == opened


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def raised(error: OSError) -> None:
    raise error


def test_an_examination_that_a_node_cannot_start_or_ends_refuses_the_run(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = made(image_of_this_machine(tmp_path / "image"))
    asked, root = task(tmp_path, ["true"]), NodeRoot(str(tmp_path / "root"))
    monkeypatch.setattr(examined, "start_container", lambda *_: container)
    monkeypatch.setattr(containers, "_read_until", lambda *_: b'{"value": {"rea')
    assert [each.code for each in examined.prepared(asked, root, root.run("run-0"))[1]] == ["container"]
    monkeypatch.setattr(os, "fork", lambda: raised(OSError(errno.EAGAIN, "no room")))
    found, (reason,), _ = examined.prepared(asked, root, root.run("run-0"))
    assert (found, reason.message) == (container, f"the container cannot be made: [Errno {errno.EAGAIN}] no room")


def test_ranks_find_the_libraries_of_the_driver_of_their_node(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "driver").mkdir()
    for name in (gpu_driver.CUDA, "libnvidia-gpucomp.so.580.159.04", "libcudart.so.13"):
        (tmp_path / "driver" / name).write_text(name)
    monkeypatch.setattr(gpu_driver, "NVIDIA_VERSION", "/proc/self/stat")
    monkeypatch.setattr(gpu_driver, "LDCONFIG", "/nowhere/ldconfig")
    monkeypatch.setattr(gpu_driver, "DIRECTORIES", ("/nowhere", str(tmp_path / "driver")))
    asked = task(tmp_path, container=ContainerTask("/image", []))
    found = gpu_driver.with_driver(asked)
    assert found.container is not None
    container = made(image_of_this_machine(tmp_path / "image"), *found.container.mounts)
    assert container.inside(lambda: sorted(each.name for each in Path(found.env["LD_LIBRARY_PATH"]).iterdir())) == [
        gpu_driver.CUDA, "libnvidia-gpucomp.so.580.159.04",
    ]  # fmt: skip


def test_a_node_and_an_image_without_the_library_of_the_driver_are_refused(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = made(image_of_this_machine(tmp_path / "image"))
    monkeypatch.setattr(examined, "start_container", lambda *_: container)
    monkeypatch.setattr(examined, "NVIDIA_VERSION", "/proc/self/stat")
    root = NodeRoot(str(tmp_path / "root"))
    asked = task(tmp_path, ["true"], devices=[0])
    (reason,) = examined.prepared(asked, root, root.run("run-0"))[1]
    assert reason.code == "container-gpu"


@pytest.mark.parametrize(
    "text", ["No permissions to create new namespace, likely because …", "setting up uid map: Permission denied"]
)
def test_a_node_that_refuses_namespaces_to_bubblewrap_is_at_fault_and_not_the_image(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    fake_program(tmp_path / "fake", monkeypatch, "bwrap", f"echo 'bwrap: {text}' >&2\nexit 1")
    with pytest.raises(ContainerError, match=f"^no namespaces for a container: bwrap: {text}") as refused:
        made(image_of_this_machine(tmp_path / "image"))
    assert refused.value.reason.code == "container-engine"
    assert "pylaunch check --only containers --container /" in refused.value.reason.hint


def test_a_node_that_refuses_namespaces_for_a_file_is_at_fault_and_not_the_image(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_of_this_machine(tmp_path / "image")
    (tmp_path / "file").write_bytes(b"hsqs")
    fake_program(tmp_path / "fake", monkeypatch, "squashfuse", "exit 1")
    refusal = OSError(errno.EPERM, "unshare: Operation not permitted")
    monkeypatch.setattr(containers, "_call", lambda *_: raised(refusal))
    with pytest.raises(ContainerError, match=r"^no namespaces for a container: .*unshare: Operation not permitted"):
        made(tmp_path / "file")


def fake_program(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Let `text` run in place of a program of the node."""
    directory.mkdir()
    (directory / name).write_text(f"#!/bin/sh\n{text}\n")
    (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@needs_fuse
def test_a_file_that_changes_while_it_is_mounted_is_refused(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = squashed(image_of_this_machine(tmp_path / "image"))
    fake_program(
        tmp_path / "fake", monkeypatch, "squashfuse", f'echo >> {file}\nexec {shutil.which("squashfuse")} "$@"'
    )
    with pytest.raises(ContainerError, match="changed while it was mounted"):
        made(file)


@pytest.mark.parametrize(
    ("text", "within_s", "error"), [("exec sleep 600", 1, "no answer within 1 s"), ("exit 1", 60, "cannot mount")]
)
def test_a_file_that_cannot_be_mounted_is_refused_and_its_opener_ended(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, within_s: float, error: str
) -> None:
    image_of_this_machine(tmp_path / "image")
    (tmp_path / "file").write_bytes(b"hsqs")
    fake_program(tmp_path / "fake", monkeypatch, "squashfuse", text)
    monkeypatch.setattr(containers, "START_S", within_s)
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


@pytest.mark.parametrize("kind", ["directory", *(pytest.param(kind, marks=needs_fuse) for kind in ("file", "sif"))])
def test_two_runs_in_two_images_see_their_own_and_can_write_neither(made: Make, tmp_path: Path, kind: str) -> None:
    names = ["one two\nthree", "four"]
    for name in names:
        image = image_of_this_machine(tmp_path / name)
        (image / name).touch()
        # Places that the image lacks: their directories are in memory, and what is written there would be lost.
        places = [MountTask("/usr/lib", "/new/lib"), MountTask("/usr/lib", "/etc/new/lib")]
        container = made(MAKES[kind](image), *places)
        assert container.inside(lambda: [each for each in names if Path("/", each).exists()]) == [name]
        for path in map(Path, ("/marker", "/etc/passwd", "/usr/written", "/new/x", "/etc/new/x", "/x", "/etc/x")):
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
