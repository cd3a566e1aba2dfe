"""Containers of hostile, changing and slow images: what the agent joins, what it refuses, and that nothing is left.

The engine is `unshare --mount` with a program in place of the shell of an image.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch.agent import containers as containers
from pylaunch.agent.containers import JoinableContainer
from pylaunch.agent.run import lifecycle, spawn
from pylaunch.agent.run.environment import RefusedError
from pylaunch.agent.shared import container_engines, processes
from pylaunch.base.layout import NodeRoot, RunDirectory
from pylaunch.protocol.node_task import ContainerTask, MountTask
from tests.agent.controller import task
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")

READY = "print('pylaunch-holder', os.getpid(), flush=True)"
Make = Callable[..., JoinableContainer]


def below(pid: int) -> set[int]:
    """Return the processes that descend from `pid`."""
    return processes.descendants(processes.mine(), [pid])


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file, which no engine here reads."""
    (tmp_path / "image.sif").write_text("image")
    return tmp_path / "image.sif"


@pytest.fixture
def made(tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes a container whose shell does what a text says, then waits. None of its processes is there afterwards."""
    root = NodeRoot(str(tmp_path / "root"))
    before = below(os.getpid())
    kept: list[JoinableContainer] = []
    monkeypatch.setattr(container_engines, "engine_of", lambda image: "apptainer")

    def make(body: str = READY, *mounts: MountTask) -> JoinableContainer:
        shell = [sys.executable, "-c", f"import os, sys\n{body}\nsys.stdin.read()"]
        monkeypatch.setattr(container_engines, "command", lambda *words: ["unshare", "--mount", *shell])
        asked = task(tmp_path, run="7f3a", container=ContainerTask(str(image), list(mounts)))
        kept.append(containers.start_container(asked, root))
        return kept[-1]

    yield make
    for each in kept:
        each.end()
    wait_until(lambda: below(os.getpid()) <= before, "the processes of the container end")


def test_a_rank_joins_the_file_system_of_the_holder_and_nothing_else(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_IMAGE", "yes")
    container = made()
    program = ["sh", "-c", "for n in /proc/self/ns/*; do echo ${n##*/}=$(readlink $n); done"]
    out = str(tmp_path / "out")
    pid, reading = spawn.spawn(spawn.Exec(program, dict(os.environ), "/", container.join), (out, out))
    assert spawn.reached_gate(reading)
    assert spawn.start_time(reading) is not None
    os.waitpid(pid, 0)
    inside = dict(line.split("=") for line in Path(out).read_text().splitlines())
    mine = {path.name: str(path.readlink()) for path in Path("/proc/self/ns").iterdir()}
    assert {name for name in mine if inside[name] != mine[name]} == {"mnt"}
    assert container.env["OF_THE_IMAGE"] == "yes"
    assert processes.RUN_MARK not in container.env


def test_a_process_without_the_mark_of_the_run_is_not_joined(made: Make) -> None:
    with pytest.raises(RefusedError, match="apptainer made no container"):
        made(f"print('pylaunch-holder', {os.getpid()}, flush=True)")


@pytest.mark.parametrize(
    ("body", "within_s", "error"),
    [
        ("while True: sys.stdout.write('ready ' * 999)", 60, "prints more than 64 KiB"),
        ("print('pylaunch-holder', '1' * 5000, flush=True)", 60, "apptainer made no container"),
        ("sys.exit('no space left')", 60, "apptainer made no container: no space left"),
        ("print(1, flush=True)", 1, "no answer within 1 s"),
    ],
)
def test_a_shell_that_floods_ends_or_is_silent_refuses_the_run(
    made: Make, monkeypatch: pytest.MonkeyPatch, body: str, within_s: float, error: str
) -> None:
    monkeypatch.setattr(containers, "START_S", within_s)
    with pytest.raises(RefusedError, match=error):
        made(body)


def test_a_container_that_stays_after_a_start_that_failed_is_named(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_engines, "remove_container", lambda directory, has_ended: ["container c: no answer"])
    with pytest.raises(RefusedError, match="no space left; container c: no answer"):
        made("sys.exit('no space left')")


@pytest.mark.parametrize(("body", "is_certain"), [("sys.exit(125)", True), ("sys.exit(143)", False)])
def test_of_a_client_that_a_signal_ended_a_container_may_follow(
    made: Make, monkeypatch: pytest.MonkeyPatch, body: str, is_certain: bool
) -> None:
    known: list[bool] = []

    def remove(directory: RunDirectory, *, has_ended: bool) -> list[str]:
        known.append(has_ended)
        return []

    monkeypatch.setattr(container_engines, "remove_container", remove)
    with pytest.raises(RefusedError):
        made(body)
    assert known == [is_certain]


def test_an_engine_that_neither_runs_a_shell_nor_ends_is_killed(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "START_S", 1)
    monkeypatch.setattr(containers, "END_S", 0.1)
    with pytest.raises(RefusedError, match="no answer within 1 s"):
        made("import time; time.sleep(600)")


def test_an_engine_that_survives_sigkill_does_not_keep_the_agent(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    container = made(f"{READY}; import time; time.sleep(20)")
    with monkeypatch.context() as patch:
        patch.setattr(containers, "END_S", 0.1)
        patch.setattr(lifecycle, "KILL_S", 0.1)
        patch.setattr(os, "killpg", lambda pid, signum: None)
        container.end()
        assert container.processes & below(os.getpid())


def test_a_program_or_a_path_that_is_not_in_the_image_is_named_before_the_release(made: Make, tmp_path: Path) -> None:
    join, out = made().join, (str(tmp_path / "out"), str(tmp_path / "err"))
    absent: tuple[list[str], list[str], str] = (["/no/python"], [], "/no/python")
    for argv, needs, error in [absent, (["/usr"], [], "/usr"), (["true"], ["train.py"], "train.py")]:
        pid, reading = spawn.spawn(spawn.Exec(argv, dict(os.environ), str(tmp_path), join, needs), out, os.pipe())
        assert not spawn.reached_gate(reading)
        os.close(reading)
        os.waitpid(pid, 0)
        text = f"pylaunch: cannot run {argv[0]} in {tmp_path}: No such file or directory: {error}\n"
        assert Path(out[1]).read_text().endswith(text)


def test_a_mount_that_hides_the_directory_of_pylaunch_or_has_no_source_is_refused(made: Make, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="is the directory of pylaunch"):
        made(READY, MountTask("/tmp", f"{tmp_path}/root/runs"))
    with pytest.raises(RefusedError, match="--container-mount /no/data:/data: /no/data does not exist"):
        made(READY, MountTask("/no/data", "/data"))


def test_a_file_that_changes_while_it_is_opened_is_refused(made: Make, image: Path) -> None:
    with pytest.raises(RefusedError, match="it changed while it was opened"):
        made(f"open({str(image)!r}, 'a').write('more')\n{READY}")
    first, again = made().digest, made().digest
    assert first == again
    image.write_text("other")
    assert made().digest not in (first, "")


def test_an_image_that_is_not_there_is_refused(made: Make, image: Path) -> None:
    image.unlink()
    with pytest.raises(RefusedError, match=r"image .*image.sif: No such file or directory"):
        made()
