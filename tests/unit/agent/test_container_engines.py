"""Command lines of engines that hold the container of ranks."""

import os
import time
from pathlib import Path

import pytest

from pylaunch.agent.shared import container_engines, programs
from pylaunch.agent.shared.programs import ProgramEnd
from pylaunch.base.layout import RunDirectory
from pylaunch.protocol.node_task import MountTask

MOUNTS = [MountTask("/data/sets", "/data/sets", read_only=True), MountTask("/scratch", "/data")]
ENV = {"PYLAUNCH_RUN": "7f3a"}
SHELL = ["/bin/sh", "-c", "read -r end"]


def binds(*pairs: str) -> str:
    return " ".join(f"--mount type=bind,source={pair.replace(':', ',destination=')}" for pair in pairs)


MARK = "--env PYLAUNCH_RUN=7f3a"
BOUND = binds("/scratch:/data", "/data/sets:/data/sets,ro")
NODE = binds("/dev:/dev", "/tmp:/tmp")
RUN = "run --rm --interactive --pull=never --network=host --ipc=host --pid=host --log-driver=none"
CLOSED = "--security-opt=label=disable"
FILE, NAME, SQUASHFS = "/images/torch.sif", "nvcr.io/nvidia/pytorch:24.12", "/images/torch.sqsh"
PODMAN = "--entrypoint= --security-opt=unmask=ALL --userns=keep-id --device=nvidia.com/gpu=all"
DOCKER = "--entrypoint= --security-opt=systempaths=unconfined --gpus=all"
OPEN = "none:x-create=auto,rbind"
ENROOT = f"--mount /tmp:/tmp:{OPEN} --mount /scratch:/data:{OPEN} --mount /data/sets:/data/sets:{OPEN},ro"


@pytest.mark.parametrize(
    ("uid", "has_gpu", "line"),
    [
        (1000, True, f"podman {RUN} {CLOSED} --user=1000:1000 {PODMAN} {MARK} {NODE} {BOUND} {NAME}"),
        (0, True, f"docker {RUN} {CLOSED} --user=0:0 {DOCKER} {MARK} {NODE} {BOUND} {NAME}"),
        (1000, True, f"apptainer exec --cleanenv --userns --nv {MARK} {BOUND} {FILE}"),
        (0, False, f"singularity exec --cleanenv --no-home {MARK} {BOUND} {FILE}"),
        (1000, True, f"enroot start --rw --env NVIDIA_VISIBLE_DEVICES=all {ENROOT} {MARK} {SQUASHFS}"),
    ],
)
def test_each_engine_gets_the_driver_the_user_and_the_mounts_from_the_outermost_on(
    monkeypatch: pytest.MonkeyPatch, uid: int, has_gpu: bool, line: str
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr(os, "getgid", lambda: uid)
    monkeypatch.setattr(container_engines, "NVIDIA_VERSION", "/" if has_gpu else "/no/driver")
    engine, *words, image = line.split(" ")
    assert container_engines.command(engine, image, MOUNTS, ENV, SHELL) == [engine, *words, image, *SHELL]


ABSENT = ProgramEnd(1, "", "Error: No such container: pylaunch-12ab\n")
DOWN = ProgramEnd(125, "", "Cannot connect to the Docker daemon\n")


@pytest.mark.parametrize(
    ("engine", "end", "state"),
    [
        ("docker", ProgramEnd(0, "pylaunch-12ab\n", ""), container_engines.THERE),
        ("docker", ABSENT, container_engines.AWAITED),
        ("docker", ProgramEnd(0, "", ABSENT.errors), container_engines.AWAITED),
        ("podman", ABSENT, container_engines.ABSENT),
        ("podman", ProgramEnd(0, "", ""), container_engines.ABSENT),
        ("podman", ProgramEnd(125, "", "Error: storage is locked\n"), container_engines.LEFT),
        ("docker", ProgramEnd(-9, "", ""), container_engines.LEFT),
    ],
)
def test_a_container_is_noted_until_its_engine_has_removed_it_or_can_make_it_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, end: ProgramEnd, state: str
) -> None:
    directory = RunDirectory("7f3a", str(tmp_path))
    assert container_engines.noted(directory, ["apptainer", "exec", NAME]) == ["apptainer", "exec", NAME]
    assert not (tmp_path / container_engines.NOTE).exists()
    first, verb, option, image = container_engines.noted(directory, [engine, "run", NAME])
    assert (first, verb, image) == (engine, "run", NAME)
    name = option.partition("--name=")[2]
    asked: list[list[str]] = []

    def ended(words: list[str], **_: object) -> ProgramEnd:
        asked.append(words)
        return end

    monkeypatch.setattr(programs, "ended", ended)
    there = {container_engines.LEFT, container_engines.AWAITED}
    assert [each.endswith(f"to remove it: {engine} rm --force {name}") for each in
            container_engines.remove_container(directory)] == [True] * (state in there)  # fmt: skip
    assert asked == [[engine, "rm", "--force", name]]
    assert (tmp_path / container_engines.NOTE).exists() == (state in there)
    if state != container_engines.LEFT:
        container_engines.noted(directory, [engine, "run", NAME])
        assert container_engines.removal(directory, has_ended=True)[0] in (container_engines.THERE, "absent")
        assert not (tmp_path / container_engines.NOTE).exists()


@pytest.mark.parametrize(
    ("end", "age_s", "left"),
    [
        (ProgramEnd(0, "[{}]", ""), 0, [""]),
        (ABSENT, 0, [": not there, but its client ended early and the daemon may still make it; to remove it: "]),
        (ABSENT, container_engines.SETTLED_S, []),
        (ABSENT, -2, []),
        (DOWN, 0, [": Cannot connect to the Docker daemon; to remove it: "]),
        (ProgramEnd(1, "", "x" * 500), 0, [f": {'x' * 150}; to remove it: "]),
    ],
)
def test_a_look_for_a_container_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: ProgramEnd, age_s: float, left: list[str]
) -> None:
    directory = RunDirectory("7f3a", str(tmp_path))
    assert container_engines.kept_container(directory) == []
    name = container_engines.noted(directory, ["docker", "run", NAME])[2].partition("--name=")[2]
    os.utime(tmp_path / "container", (0, 0))  # The clock was set, or is that of a server.
    now = time.clock_gettime(time.CLOCK_BOOTTIME)  # Less than that of the note: the node was restarted.
    monkeypatch.setattr(time, "clock_gettime", lambda clock: now + age_s)
    asked: list[list[str]] = []

    def ended(words: list[str], **_: object) -> ProgramEnd:
        asked.append(words)
        return end

    monkeypatch.setattr(programs, "ended", ended)
    why = [each.partition(f"container {name} of run 7f3a (docker)")[2] for each in
           container_engines.kept_container(directory)]  # fmt: skip
    assert why == [each + f"docker rm --force {name}" * bool(each) for each in left]
    assert [words[:3] for words in asked] == [["docker", "container", "inspect"]]
    assert (tmp_path / container_engines.NOTE).exists()


def test_a_note_that_names_no_engine_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "container").write_text("/tmp/evil")
    monkeypatch.delattr(programs, "ended")
    (why,) = container_engines.remove_container(RunDirectory("7f3a", str(tmp_path)))
    assert why.endswith(" of run 7f3a (/tmp/evil): '/tmp/evil' is no engine")


def test_a_path_is_a_file_for_apptainer_or_enroot_and_all_else_a_name_in_a_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {"docker", "singularity", "enroot"}
    monkeypatch.setattr(programs, "path_of", lambda name: name if name in there else None)
    found = [container_engines.engine_of(image) for image in (NAME, FILE, SQUASHFS, "/images/sandbox")]
    assert found == ["docker", "singularity", "enroot", "singularity"]
    there -= {"docker"}
    assert container_engines.engine_of(NAME) is None


def test_ids_of_podman_and_docker_are_written_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(
        [ProgramEnd(0, "12ab\n", ""), ProgramEnd(0, "sha256:12ab\n", ""), ProgramEnd(125, "", "a\nno such\n")]
    )
    monkeypatch.setattr(programs, "ended", lambda words, deadline_s: next(answers))
    assert container_engines.image_id("podman", NAME) == container_engines.image_id("docker", NAME) == "sha256:12ab"
    with pytest.raises(OSError, match=f"podman has no image {NAME}: no such"):
        container_engines.image_id("podman", NAME)
