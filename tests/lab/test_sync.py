"""The working tree on its way to three real nodes."""

import json
import re
from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.controller import Gate, must_be_clean, newest, starting

COMMAND = ("--framework", "command")
HEAVY = 3 << 20


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with a large file, a small one that the script uses, and one that is ignored."""
    work = tmp_path / "project"
    (work / "lib").mkdir(parents=True)
    (work / "weights.bin").write_bytes(bytes(range(256)) * (HEAVY // 256))
    (work / "lib/step").write_text("echo version 1\n")
    (work / "run.sh").write_text(
        "#!/bin/sh\n. lib/step\nsha256sum weights.bin; ls secret.env 2>&1; echo $RANK > out.$RANK\n"
    )
    (work / "run.sh").chmod(0o755)
    (work / "secret.env").write_text("not for nodes")
    (work / ".gitignore").write_text("*.env\n")
    return work


def start(lab: Lab, work: Path, *arguments: str) -> Completed:
    return lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, "--sync", ".", *arguments, cwd=work, timeout_s=300)


def test_all_nodes_run_the_same_tree_and_the_second_time_only_what_changed_travels(lab: Lab, work: Path) -> None:
    first = start(lab, work, "--", "./run.sh")
    assert first.returncode == ExitCode.DONE, first.stderr
    assert "n[1-3]: received 4 of 4 files (3.0 MiB)" in first.stderr
    assert first.stdout.count("| version 1\n") == 3
    assert len(set(re.findall(r"[0-9a-f]{64}", first.stdout))) == 1
    assert first.stdout.count("cannot access 'secret.env'") == 3
    (work / "lib/step").write_text("echo version two\n")
    second = start(lab, work, "--", "./run.sh")
    assert second.stdout.count("| version two\n") == 3
    assert "n[1-3]: received 1 of 4 files (17 bytes)" in second.stderr
    status = json.loads(lab.pylaunch("status", newest(lab), "--json").stdout)
    assert set(status["start_seconds"]) == {"connect", "ship", "prepare", "release", "skew"}
    fetched = lab.pylaunch("fetch", status["run"], "out.*", "weights.bin", "--to", "home", cwd=work)
    assert fetched.returncode == ExitCode.DONE, fetched.stderr
    assert [(work / f"home/out.{rank}").read_text() for rank in range(3)] == ["0\n", "1\n", "2\n"]
    assert (work / "home/n2/weights.bin").read_bytes() == (work / "weights.bin").read_bytes()
    must_be_clean(lab)


def test_a_restart_resumes_from_the_snapshot_that_a_killed_rank_wrote_beside_its_script(
    lab: Lab, work: Path, tmp_path: Path, gate: Gate
) -> None:
    (work / "run.sh").write_text(
        "#!/bin/sh\n[ -e snapshot.pt ] && echo resumed from $(cat snapshot.pt) && exit 0\n"
        f"echo epoch 3 on $RANK > snapshot.pt\necho wrote\n{gate.wait}\n[ $RANK = 1 ] && kill -9 $$\nsleep 60\n"
    )
    arguments = (*COMMAND, "--sync", str(work), "--max-restarts", "1", "--", "./run.sh")
    with starting(lab, tmp_path, *arguments) as run:
        run.says("| wrote", times=3)
        gate.open()
        assert run.ends() == ExitCode.DONE, run.stderr
    assert sorted(line.partition("| ")[2] for line in run.stdout.splitlines() if "resumed" in line) == [
        f"resumed from epoch 3 on {rank}" for rank in range(3)
    ]
    assert "n[1-3]: received 0 of 4 files (0 bytes); ranks continue in /var/tmp/pylaunch-0/trees/" in run.stderr
    must_be_clean(lab)


def test_a_change_between_reading_and_starting_is_reported(lab: Lab, work: Path, tmp_path: Path) -> None:
    arguments = (*COMMAND, "--sync", str(work), "--", "./run.sh")
    with lab["n3"].freeze() as frozen, starting(lab, tmp_path, *arguments) as started:
        started.says("connecting to n[1-3]")
        (work / "lib/step").write_text("echo too late\n")
        frozen.undo()
        assert started.ends() in (ExitCode.DONE, ExitCode.CLUSTER_NOT_READY)
        assert "lib/step changed while it was being shipped" in started.stderr or (
            "warning: changed since the tree was read: lib/step" in started.stderr
        )
        assert "too late" not in started.stdout
