"""Leftovers of dead runs are removed; files and processes of live runs and of other users are not touched."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.piped import cleanup
from pylaunch.agent.probe.readers.hosts import occupants
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.clean import KEPT_ARCHIVES, KEPT_RUNS
from pylaunch.probe.program import FROM_STDIN, probe
from tests.agent.controller import Node, gone, is_alive, task
from tests.waiting import wait_until


@contextmanager
def marked(marks: Mapping[str, str], program: str = "echo; exec sleep 60") -> Iterator[int]:
    """A process with these in its environment that says when it is up."""
    process = subprocess.Popen(["/bin/sh", "-c", program], stdout=subprocess.PIPE, env={**os.environ, **marks})
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid
    process.kill()
    process.wait()


def test_the_probe_lists_a_process_of_a_run_that_is_no_rank(node: Node) -> None:
    with marked({"PYLAUNCH_RUN": "dead1", "PYLAUNCH_ROOT": str(node.root)}) as pid:
        asked = probe(occupants.occupants.ask({"ports": []}))
        ended = subprocess.run([sys.executable, *FROM_STDIN], input=asked, capture_output=True, check=True)
        reading = json.loads(ended.stdout)["readings"][occupants.occupants]["value"]
    (row,) = [each for each in reading["processes"] if each["pid"] == pid]
    assert (row["rank"], row["run"], row["run_is_live"]) == (False, "dead1", False)


def test_a_process_of_a_dead_run_is_ended_even_if_it_ignores_term(node: Node) -> None:
    marks = {"PYLAUNCH_RUN": "dead1", "PYLAUNCH_ROOT": str(node.root)}
    with marked(marks, "trap '' TERM; echo; while :; do sleep 0.2; done") as pid:
        looked = node.cleaned(dry_run=True)
        assert any(f"pid {pid}" in phrase for phrase in looked["removed"])
        assert is_alive(pid)
        cleaned = node.cleaned()
        assert any(f"pid {pid}" in phrase and "run dead1" in phrase for phrase in cleaned["removed"])
        assert cleaned["left"] == []
        assert not is_alive(pid)


def test_a_process_without_its_environment_is_known_by_the_log_of_a_rank_to_which_it_writes(node: Node) -> None:
    logs = node.root / "runs" / "dead1" / "logs"
    for directory in (node.root, *reversed(logs.parents[:2]), logs):
        directory.mkdir(mode=0o700, exist_ok=True)
    words = ("env", "-i", "/bin/sh", "-c", "exec sleep 60")
    with (
        (logs / "1.out").open("wb") as log,
        subprocess.Popen(words, stdout=log, start_new_session=True) as left,
    ):
        wait_until(lambda: processes.read(left.pid).command == "sleep 60", "it has no mark")
        removed = node.cleaned()["removed"]
        assert f"pid {left.pid} (sleep 60) of dead run dead1" in removed
        assert left.wait() != 0


def test_a_process_of_another_root_or_without_a_root_is_not_ours(node: Node) -> None:
    with (
        marked({"PYLAUNCH_RUN": "dead1", "PYLAUNCH_ROOT": str(node.root) + "2"}) as elsewhere,
        marked({"PYLAUNCH_RUN": "dead1"}) as rootless,
        marked({"PYLAUNCH_RUN": "../no id", "PYLAUNCH_ROOT": str(node.root)}) as nameless,
    ):
        assert node.cleaned()["removed"] == []
        assert all(map(is_alive, (elsewhere, rootless, nameless)))


@pytest.mark.skipif(os.getuid() != 0, reason="makes a process namespace")
def test_a_process_in_a_container_belongs_to_the_container(node: Node) -> None:
    marks = ["PYLAUNCH_RUN=dead1", f"PYLAUNCH_ROOT={node.root}"]
    words = ["unshare", "--pid", "--fork", "--kill-child", "env", *marks, "sh", "-c", "echo; exec sleep 60"]
    container = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert container.stdout is not None
    container.stdout.readline()
    assert node.cleaned()["removed"] == []
    assert Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text() != ""
    container.kill()
    container.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_a_claimed_parent_of_another_users_process_is_not_ended() -> None:
    serves = (
        "import os, time; pid = os.fork(); pid or os.setuid(65534); pid or print(os.getpid(), flush=True); "
        "time.sleep(60)"
    )
    with (
        subprocess.Popen([sys.executable, "-c", serves], stdout=subprocess.PIPE) as serving,
        subprocess.Popen(["sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE) as alone,
    ):
        try:
            assert serving.stdout is not None
            assert alone.stdout is not None
            theirs = int(serving.stdout.readline())
            alone.stdout.readline()
            targets = [(each.pid, processes.read(each.pid).started) for each in (serving, alone)]
            ended, stays = cleanup.end_targets(targets)
            assert [phrase.split()[1] for phrase in ended] == [str(alone.pid)]
            assert stays == []
            assert is_alive(serving.pid)
        finally:
            serving.kill()
            os.kill(theirs, signal.SIGKILL)


def test_a_live_run_is_not_touched(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "exec sleep 60"))
    pid = controller.pid(0)
    cleaned = node.cleaned()
    assert [cleaned[name] for name in ("removed", "left")] == [[], []]
    assert is_alive(pid)


def test_a_start_removes_leftovers_of_a_killed_supervisor_and_reports_them(node: Node, tmp_path: Path) -> None:
    script = "setsid sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 60' & exec sleep 60"
    first = node.started(task(tmp_path, script))
    pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the daemon"))
    rank = first.pid(0)
    os.kill(node.supervisor(first), signal.SIGKILL)
    gone(rank)
    assert is_alive(pid)
    second = node.prepared(task(tmp_path, "true", run="r2"))
    removed = second.all(protocol.Ready)[0].removed
    assert any(f"pid {pid}" in phrase and "run r1" in phrase for phrase in removed)
    assert "socket agent.sock of dead run r1" in removed
    assert not is_alive(pid)


def test_the_short_directory_of_a_killed_supervisor_is_removed_with_its_run(node: Node, tmp_path: Path) -> None:
    words = ["/bin/sh", "-c", "echo $0 > new; mv new short; exec sleep 60", protocol.SHORT_DIRECTORY]
    controller = node.started(task(tmp_path, words))
    rank = controller.pid(0)
    wait_until((tmp_path / "short").exists, "the rank has printed its directory")
    short = Path((tmp_path / "short").read_text().strip())
    assert short.parent == Path("/tmp")
    os.kill(node.supervisor(controller), signal.SIGKILL)
    gone(rank)
    assert short.is_dir()
    assert f"{short} of dead run r1" in node.cleaned()["removed"]
    assert not short.exists()


def test_a_run_whose_container_cannot_be_removed_is_kept_and_named(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its files, the next cleanup and the proof of the run would call the node clean."""
    engine = tmp_path / "bin" / "docker"
    engine.parent.mkdir()
    engine.write_text("#!/bin/sh\necho cannot connect to the daemon >&2\nexit 1\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}:{os.environ['PATH']}")
    node.ask("runs")
    directory = node.root / "runs" / "dead1"
    directory.mkdir(mode=0o700)
    (directory / "container").write_text("docker")
    (directory / "outcome.json").write_text('{"outcome": "refused", "message": ""}')
    for _ in range(2):
        (left,) = node.cleaned()["left"]
        assert " of run dead1 (docker): cannot connect to the daemon; to remove it: docker rm --force pylaunch-" in left
    cleanup.of_run(str(node.root), "dead1", "n1", began=0.0, grace_s=None)
    assert json.loads(capsys.readouterr().out)["left"] == [left]
    (refused,) = node.refusal(task(tmp_path, "true"))
    assert (refused.code, refused.message) == ("leftovers-stay", f"of a dead run, could not remove {left}")
    engine.write_text("#!/bin/sh\necho No such container >&2\nexit 1\n")
    for _ in range(2):  # Its client was killed: the daemon may make the container yet, which refuses no other run.
        assert "the daemon may still make it" in node.cleaned()["left"][0]
    node.prepared(task(tmp_path, "true", run="r2"))
    engine.write_text("#!/bin/sh\necho $3\n")
    assert node.cleaned()["removed"] == [left.partition(": cannot")[0], "files of run dead1"]
    assert not directory.exists()


def test_the_logs_of_the_last_runs_are_kept(node: Node) -> None:
    node.ask("runs")
    for number in range(KEPT_RUNS + 2):
        directory = node.root / "runs" / f"old{number:02}"
        directory.mkdir()
        os.utime(directory, (number, number))
    node.cleaned()
    left = sorted(entry.name for entry in (node.root / "runs").iterdir())
    assert left == [f"old{number:02}" for number in range(2, KEPT_RUNS + 2)]


def test_runs_that_are_prepared_at_the_same_time_can_clean_the_same_leftovers(node: Node, tmp_path: Path) -> None:
    node.ask("runs")
    for number in range(KEPT_RUNS + 60):
        directory = node.root / "runs" / f"old{number:02}"
        directory.mkdir()
        (directory / "outcome.json").write_text(
            json.dumps(
                {"run": directory.name, "outcome": ("refused", "finished")[number % 2], "message": "", "time": 0}
            )
        )
    controllers = [node.open(f"new{number}") for number in range(6)]
    for controller in controllers:
        controller.until(protocol.Hello)
    for number, controller in enumerate(controllers):
        controller.send(protocol.Prepare(task(tmp_path, "true", run=f"new{number}")))
    for controller in controllers:
        controller.until(protocol.Ready)


def test_node_installs_the_agent_and_keeps_the_newest_archives(node: Node) -> None:
    node.ask("runs")
    for number in range(KEPT_ARCHIVES + 2):
        path = node.root / "agents" / f"{number:016}.pyz"
        shutil.copyfile(node.archive, path)
        path.with_name(f"{path.name}.cpython-38").touch()
        os.utime(path, (number, number))
    answer = json.loads(node.ask("node").stdout)
    assert answer["changed"]
    assert Path(answer["agent"]).read_bytes() == node.archive.read_bytes()
    left = [path.suffix for path in (node.root / "agents").iterdir()]
    assert (left.count(".pyz"), left.count(".cpython-38")) == (KEPT_ARCHIVES, KEPT_ARCHIVES - 1)
    assert not json.loads(node.ask("node").stdout)["changed"]


def test_a_root_that_is_not_ours_alone_is_refused(agent_archive: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    (tmp_path / "file").write_text("")
    answers = {name: Node(tmp_path / name, agent_archive).ask("runs").stdout for name in ("open", "link", "file")}
    assert "is open to others (mode 0755" in json.loads(answers["open"])["error"]
    assert "is a symbolic link" in json.loads(answers["link"])["error"]
    assert "is not a directory" in json.loads(answers["file"])["error"]
