"""`start --notify` with servers of this machine: what they get, and what a broken one costs."""

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
from tests.starts.cluster import ENDS_S, DirectoryCluster, ended, says
from tests.starts.receiver import receiving
from tests.waiting import wait_until

SECRET = "s3cr3t-path-of-the-hook"


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


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch) -> DirectoryCluster:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return directories("n1", "n2")


def test_every_target_gets_start_restart_and_end(cluster: DirectoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook(200) as (url, posted), webhook(302) as (moved, posted_to_moved):
        monkeypatch.setenv("HOOK", url)
        flags = ("--notify", "env:HOOK", "--notify", moved)
        done = ended(cluster.start(*flags, "--max-restarts", "1", "--", "sh", "-c", "echo no >&2; exit 3"))
    assert done.returncode == ExitCode.JOB_FAILED, done.stderr
    assert [each["event"] for each in posted] == ["start", "restart", "end"]
    end = posted[-1]
    assert (end["status"], end["hosts"], end["ranks"]) == ("failed", "n[1-2]", 2)
    assert re.fullmatch(r"pylaunch run \w+\.1: failed: all 2 ranks failed alike: exited with code 3", end["text"])
    assert end["content"] == end["text"]
    assert len(posted_to_moved) == 3
    warnings = sorted(line for line in done.stderr.splitlines() if line.startswith("warning: --notify"))
    assert warnings == ["warning: --notify http://127.0.0.1/…: not delivered: the server answered with status 302"]
    assert SECRET not in done.stderr + done.stdout


def test_a_target_that_hangs_delays_the_end_by_its_limit(cluster: DirectoryCluster) -> None:
    with webhook(None) as (url, posted):
        done = ended(cluster.start("--notify", url, "--", "true"))
        (run,) = cluster.outcomes()
        delay = time.time() - cluster.outcomes()[run]["ended_at"]
    assert done.returncode == ExitCode.DONE, done.stderr
    assert posted[0]["event"] == "start"
    assert delay < LIMIT_S * 3  # A busy machine takes the rest.
    assert len([line for line in done.stderr.splitlines() if line.startswith("warning: --notify")]) == 1


def test_a_run_in_the_background_and_a_follower_notify_of_its_restart_and_end(
    cluster: DirectoryCluster, tmp_path: Path
) -> None:
    script = (
        f"until [ -e {tmp_path}/$PYLAUNCH_RUN ]; do sleep 0.02; done; case $PYLAUNCH_RUN in *.1) ;; *) exit 3; esac"
    )
    words = ("--detach", "--max-restarts", "1", "--notify")
    with webhook(200) as (url, received), webhook(200) as (second, attached):
        ended(cluster.start(*words, url, "--", "sh", "-c", script), code=ExitCode.DONE)
        (run,) = cluster.outcomes()
        follower = cluster.begin("attach", run, "--notify", second)
        says(follower, f"following run {run}; Ctrl-C leaves it alone")
        (tmp_path / run).touch()
        says(follower, f"following run {run}.1; Ctrl-C leaves it alone")
        (tmp_path / f"{run}.1").touch()
        assert f"run {run}.1 done" in ended(follower, code=ExitCode.DONE).stderr
        assert [each["event"] for each in attached] == ["restart", "end"]
        cluster.run("attach", run, "--notify", second, code=ExitCode.DONE)
        assert [attached[-1][name] for name in ("event", "hosts", "ranks")] == ["end", "n[1-2]", 2], "over before"
        wait_until(lambda: len(received) == 3, "the run in the background has notified, too")
    assert [each["event"] for each in received] == ["start", "restart", "end"]
