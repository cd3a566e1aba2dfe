"""A port that a firewall blocks while ranks use it: the pair of hosts is reported, and no rank is accused.

A rank with a time-out fails; one without waits for ever.
"""

import json
from pathlib import Path

from lab.lab import Lab
from lab.node_faults.faults import Direction, Filter, inject
from pylaunch.errors import ExitCode
from tests.lab.controller import events, must_be_clean, newest, starting

PORT = 4711
TALKS = f"""
import os, socket, sys, time

def server():
    with socket.create_server(("", {PORT})) as listener:
        connected, _ = listener.accept()
        while word := connected.recv(1):
            connected.sendall(word)
    time.sleep(300)

def client():
    until = time.monotonic() + 60
    while True:
        try:
            connected = socket.create_connection((os.environ["MASTER_ADDR"], {PORT}))
            break
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.05)
    connected.settimeout(float(sys.argv[1]) if len(sys.argv) > 1 else None)
    is_up = False
    while True:
        connected.sendall(b"x")
        try:
            connected.recv(1)
        except TimeoutError:
            print("RuntimeError: [unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete",
                  file=sys.stderr, flush=True)
            os._exit(1)
        if not is_up:
            is_up = True
            print("talks", flush=True)
        time.sleep(0.02)

rank = os.environ["RANK"]
server() if rank == "0" else client() if rank == "1" else time.sleep(300)
"""


def test_a_port_that_is_blocked_during_a_run_is_reported_as_a_path_and_nobody_is_accused(
    lab: Lab, tmp_path: Path
) -> None:
    command = ("--workdir", "/tmp", "--framework", "command", "--", "python3", "-c", TALKS, "8")
    with starting(lab, tmp_path, *command) as started:
        started.says("| talks")
        with inject(lab["n1"], Filter(PORT, Direction.IN)):
            assert started.ends() == ExitCode.JOB_FAILED
            assert "packets between n1 and n2 get no answer: a firewall or a route" in started.stderr
            blocked = newest(lab)
            sleeps = ("--hang-after", "2", "--workdir", "/tmp", "--framework", "command", "--", "sleep", "8")
            with starting(lab, tmp_path, *sleeps) as later:
                assert later.ends() == ExitCode.DONE
            assert "get no answer" not in later.stderr, "the kernel still sends the packets of the ended run"
    outcome = json.loads(lab.pylaunch("status", blocked, "--json", timeout_s=60).stdout)["outcome"]
    assert outcome["named"] is None
    (first, *_) = outcome["causes"]
    assert (first["kind"], first["confidence"], first["host"]) == ("path-blocked", "medium", None)
    assert any("not acknowledged" in line for line in first["evidence"])
    must_be_clean(lab)


def test_ranks_that_wait_behind_a_blocked_port_are_a_hang_of_the_path_and_nobody_is_accused(
    lab: Lab, tmp_path: Path
) -> None:
    command = ("--hang-after", "4", "--workdir", "/tmp", "--framework", "command", "--", "python3", "-c", TALKS)
    with starting(lab, tmp_path, *command) as started:
        started.says("| talks")
        with inject(lab["n1"], Filter(PORT, Direction.IN)):
            started.says("warning: hang: packets between n1 and n2 get no answer: ")
    (hang, *_) = [each for each in events(lab) if "get no answer" in each["text"]]
    assert (hang["host"], hang["rank"]) == (None, None)
    assert f"n1 port {PORT}" in hang["text"]
    lab.pylaunch("stop", newest(lab), timeout_s=120)
    must_be_clean(lab)
