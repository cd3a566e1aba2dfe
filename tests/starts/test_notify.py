"""`start --notify` with a server and programs of this machine: what they get, and what a broken one costs."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from pylaunch.features.notify.observer import LIMIT_S
from tests.starts.cluster import ENDS_S, DirectoryCluster, appears, ended, gone
from tests.starts.receiver import receiving
from tests.waiting import wait_until

SECRET = "s3cr3t-path-of-the-hook"
KEEPER = '#!/bin/sh\ncat >> {file}\necho "$@" >> {file}.args\nexit {code}\n'


@contextmanager
def webhook(status: int | None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on loopback and what is posted to it; without a status it never answers."""
    posted: list[dict[str, Any]] = []
    is_over = threading.Event()

    def take(request: BaseHTTPRequestHandler, body: bytes) -> None:
        posted.append(json.loads(body))
        if status is None:
            is_over.wait(ENDS_S)
            return
        request.send_response(status)
        request.send_header("Location", f"http://{request.headers['Host']}/elsewhere")
        request.end_headers()

    with receiving(take) as port:
        try:
            yield f"http://127.0.0.1:{port}/{SECRET}", posted
        finally:
            is_over.set()


def program(file: Path, name: str, code: int = 0) -> str:
    """A program that keeps its input in `file`."""
    path = file.with_name(name)
    path.write_text(KEEPER.format(file=file, code=code))
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch) -> DirectoryCluster:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return directories("n1", "n2")


def test_every_target_gets_start_restart_and_end(
    cluster: DirectoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = tmp_path / "received"
    failing = program(tmp_path / "failing", "fails", 7)
    with webhook(200) as (url, posted), webhook(302) as (moved, posted_to_moved):
        monkeypatch.setenv("HOOK", url)
        targets = (
            "env:HOOK",
            moved,
            f"command:{program(received, 'keep')} 'two words'",
            f"command:{failing} x",
        )
        flags = [word for target in targets for word in ("--notify", target)]
        done = ended(cluster.start(*flags, "--max-restarts", "1", "--", "sh", "-c", "echo no >&2; exit 3"))
    assert done.returncode == ExitCode.JOB_FAILED, done.stderr
    assert [each["event"] for each in posted] == ["start", "restart", "end"]
    end = posted[-1]
    assert (end["status"], end["hosts"], end["ranks"]) == ("failed", "n[1-2]", 2)
    assert re.fullmatch(r"pylaunch run \w+\.1: failed: all 2 ranks failed alike: exited with code 3", end["text"])
    assert end["content"] == end["text"]
    assert [json.loads(line) for line in received.read_text().splitlines()] == posted
    assert (tmp_path / "received.args").read_text().splitlines() == ["two words"] * 3
    assert len(posted_to_moved) == 3
    warnings = sorted(line for line in done.stderr.splitlines() if line.startswith("warning: --notify"))
    assert warnings == [
        f"warning: --notify command:{failing}: not delivered: exit code 7",
        "warning: --notify http://127.0.0.1/…: not delivered: the server answered with status 302",
    ]
    assert SECRET not in done.stderr + done.stdout


def test_targets_that_hang_delay_the_end_by_their_limit_and_keep_no_program(
    cluster: DirectoryCluster, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    with webhook(None) as (url, posted):
        sleeper = f"command:sh -c 'echo $$ >> {pid}; exec sleep 600'"
        done = ended(cluster.start("--notify", url, "--notify", sleeper, "--", "true"))
        (run,) = cluster.outcomes()
        delay = time.time() - cluster.outcomes()[run]["ended_at"]
    assert done.returncode == ExitCode.DONE, done.stderr
    assert posted[0]["event"] == "start"
    assert delay < LIMIT_S * 3  # A busy machine takes the rest.
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: --notify")]
    assert len(warnings) == 2
    sleepers = pid.read_text().split()  # A busy machine may end the one of the end before it writes.
    assert sleepers
    for each in sleepers:
        gone(int(each))


def test_a_run_in_the_background_and_a_follower_notify_of_its_end(cluster: DirectoryCluster, tmp_path: Path) -> None:
    received, attached, gate = tmp_path / "received", tmp_path / "attached", tmp_path / "gate"
    wait = f"until [ -e {gate} ]; do sleep 0.02; done"
    target = f"command:{program(received, 'keep')}"
    ended(cluster.start("--detach", "--notify", target, "--", "sh", "-c", wait), code=ExitCode.DONE)
    (run,) = cluster.outcomes()
    follower = cluster.begin("attach", run, "--notify", f"command:{program(attached, 'keep-too')}")
    appears(received)
    gate.touch()
    assert ended(follower).returncode == ExitCode.DONE
    assert [json.loads(line)["event"] for line in attached.read_text().splitlines()] == ["end"]
    wait_until(lambda: received.read_text().count("\n") == 2, "the run in the background has notified, too")
    assert [json.loads(line)["event"] for line in received.read_text().splitlines()] == ["start", "end"]
