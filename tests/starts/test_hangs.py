"""Ranks that do not advance are explained while the run continues, and healthy silence is not called a hang."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, appears, ended, says

LONG_S = 300.0
BEGIN = """\
import os, signal, socket, sys, threading, time
from pylaunch.runtime import step
rank = int(os.environ["RANK"])
for number in range(5):
    step(number)
    time.sleep(0.1)
"""

WAIT_FOR_PEERS = "def wait_for_peers():\n    one, other = socket.socketpair()\n    one.recv(1)\n"
TAKE_LOCK = "def take_lock():\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()\n"


def starts(cluster: DirectoryCluster, script: Path, *options: str) -> subprocess.Popen[str]:
    """Start `script` on every node with a short time for hangs."""
    words = ("start", "-i", str(cluster.inventory), "--workdir", str(script.parent), "--framework", "direct")
    return cluster.begin(*words, "--python", "/usr/bin/python3", "--hang-after", "2", *options, "--", str(script))


def written(tmp_path: Path, body: str) -> Path:
    """Write a script whose ranks mark some steps before `body`."""
    script = tmp_path / "train.py"
    script.write_text(BEGIN + body)
    return script


def events(cluster: DirectoryCluster) -> list[dict[str, Any]]:
    """Return the recorded events of the only run."""
    [path] = (cluster.state / "pylaunch" / "runs").glob("*/events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def hangs(cluster: DirectoryCluster) -> list[str]:
    """Return the texts of the recorded hangs of the only run, without ranks that are slow."""
    return [event["text"] for event in events(cluster) if event["text"].startswith("hang: ")]


@contextmanager
def to_its_end(start: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Stop the run if the body leaves it alive."""
    try:
        yield start
    finally:
        if start.poll() is None:
            start.send_signal(signal.SIGINT)
            ended(start, LONG_S)


def test_ranks_in_a_deadlock_are_shown_and_the_run_ends_if_asked(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2", "n3")
    script = written(tmp_path, f"{WAIT_FOR_PEERS}{TAKE_LOCK}take_lock() if rank == 1 else wait_for_peers()\n")
    done = ended(starts(cluster, script, "--on-hang", "stop"), LONG_S, code=ExitCode.JOB_FAILED)
    assert (
        "warning: hang: no rank computes or changes its place: rank 1 on n2 is in take_lock (train.py:" in done.stderr
    )
    [outcome] = cluster.outcomes().values()
    assert (outcome["status"], outcome["hang"]["kind"]) == ("failed", "stuck")
    assert outcome["reason"].startswith("hang: no rank computes")
    assert done.stderr.count("warning: hang:") == 1


def test_a_stopped_rank_is_named_and_its_return_is_reported(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2", "n3")
    pid_file, resumed, finish = tmp_path / "pid", tmp_path / "resumed", tmp_path / "finish"
    body = (
        f"if rank == 1:\n    with open({str(pid_file)!r} + '.new', 'w') as file:\n"
        f"        file.write(str(os.getpid()))\n"
        f"    os.rename({str(pid_file)!r} + '.new', {str(pid_file)!r})\n"
        f"while not os.path.exists({str(resumed)!r}):\n    time.sleep(0.05)\n"
        f"while not os.path.exists({str(finish)!r}):\n    number += 1\n    step(number)\n    time.sleep(0.05)\n"
    )
    with to_its_end(starts(cluster, written(tmp_path, body))) as start:
        appears(pid_file, LONG_S)
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            says(start, "warning: hang: rank 1 on n2 is stopped (state T: SIGSTOP)")
            [run] = cluster.outcomes()
            assert "warning: hang: rank 1 on n2 is stopped" in cluster.run("status", run).stderr
            resumed.touch()
        finally:
            os.kill(pid, signal.SIGCONT)
        says(start, "ranks advance again, after ")
        assert "hang" not in cluster.run("status", run).stderr
        finish.touch()
        assert ended(start, LONG_S).returncode == ExitCode.DONE


def test_a_hang_restarts_the_run_if_asked(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> None:
    cluster = directories("n1", "n2")
    body = f"{WAIT_FOR_PEERS}if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n    wait_for_peers()\n"
    done = ended(starts(cluster, written(tmp_path, body), "--on-hang", "restart", "--max-restarts", "1"), LONG_S)
    assert "restart 1 of 1: run" in done.stderr
    assert done.returncode == ExitCode.DONE


def test_a_host_whose_storage_hangs_is_replaced_by_a_spare(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    """The parent of a vfork sleeps like a process that waits for a disk (state D) until the child executes or ends."""
    cluster = directories("n1", "n2", "n3")
    body = (
        f"{WAIT_FOR_PEERS}import ctypes, platform\n"
        "CLONE_VFORK, SIGCHLD = 0x4000, 17\n"
        "def read_shard():\n"
        "    clone = 56 if platform.machine() == 'x86_64' else 220\n"
        "    if ctypes.CDLL(None).syscall(clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0:\n"
        "        time.sleep(600)\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "    read_shard() if rank == 1 else wait_for_peers()\n"
    )
    flags = ("--on-hang", "restart", "--max-restarts", "1", "--nodes", "2", "--spares", "1", "--grace", "1")
    done = ended(starts(cluster, written(tmp_path, body), *flags), LONG_S)
    assert "rank 1 on n2 is waiting for a disk" in done.stderr
    assert "n3 in place of n2: hang: a rank waits for its storage" in done.stderr
    assert done.returncode == ExitCode.DONE


def test_slow_phases_of_one_rank_are_no_hang(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> None:
    """Each phase takes three times the limit after which a hang would be reported."""
    cluster = directories("n1", "n2")
    body = (
        "def evaluate():\n    time.sleep(6)\n"
        "def save_checkpoint():\n    with open(os.devnull, 'wb') as file:\n        time.sleep(6)\n"
        "def compute():\n    until = time.monotonic() + 6\n"
        "    while time.monotonic() < until:\n        sum(range(10000))\n"
        "def serve(server):\n    connection, _ = server.accept()\n"
        "    while connection.send(bytes(2000)):\n        time.sleep(0.1)\n"
        "def fetch_weights():\n"  # 20 kB/s, which no counter of /proc has
        "    server = socket.create_server(('127.0.0.1', 0))\n"
        "    threading.Thread(target=serve, args=(server,), daemon=True).start()\n"
        "    connection, received = socket.create_connection(server.getsockname()), 0\n"
        "    while received < 120_000:\n        received += len(connection.recv(4096))\n"
        f"{WAIT_FOR_PEERS}"
        "if rank == 0:\n    for number, phase in enumerate((fetch_weights, evaluate, save_checkpoint, compute)):\n"
        "        phase()\n        step(10 + number)\n"
        "else:\n    threading.Timer(25, os._exit, (0,)).start()\n    wait_for_peers()\n"
    )
    ended(starts(cluster, written(tmp_path, body)), LONG_S, code=ExitCode.DONE)
    assert hangs(cluster) == []
