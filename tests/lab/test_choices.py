"""Values that nodes choose for a run: its rendezvous port, and the interface of its ranks."""

import json
from pathlib import Path

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.controller import events, starting
from tests.waiting import wait_until

COMMAND = ("--framework", "command", "--workdir", "/", "--no-check")
REPORT = 'echo "$MASTER_PORT $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME"'
MEET = """\
import os, socket
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
others = int(os.environ["WORLD_SIZE"]) - 1
if os.environ["RANK"] == "0":
    listener = socket.create_server(place)
    for _ in range(others):
        listener.accept()[0].sendall(b"welcome")
else:
    while True:
        try:
            print(socket.create_connection(place, timeout=60).recv(7).decode())
            break
        except ConnectionRefusedError:
            pass
"""


def start(lab: Lab, *words: str) -> Completed:
    return lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, *words)


def test_every_rank_gets_the_port_and_the_interface_that_its_node_chose(lab: Lab) -> None:
    run = start(lab, "--", "sh", "-c", REPORT)
    assert run.returncode == ExitCode.DONE, run.stderr
    reported = {line.partition("| ")[2] for line in run.stdout.splitlines()}
    assert reported == {"29500 =host0 host0 host0"}
    released = next(event for event in events(lab) if event["kind"] == "released" and event["host"] is None)
    assert released["text"] == "rendezvous port 29500"


def test_a_port_that_a_stranger_has_is_passed_over_and_ranks_meet_at_the_next(lab: Lab) -> None:
    with lab["n1"].occupy(29500):
        run = start(lab, "--", "python3", "-c", MEET)
    assert run.returncode == ExitCode.DONE, run.stderr
    assert run.stdout.count("welcome") == 2
    released = next(event for event in events(lab) if event["kind"] == "released" and event["host"] is None)
    assert released["text"] == "rendezvous port 29501"


def test_runs_side_by_side_meet_at_ports_of_their_own(lab: Lab, tmp_path: Path) -> None:
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", f"{REPORT}; exec sleep 300") as first:
        first.says("29500 =host0", times=3)
        second = start(lab, "--", "sh", "-c", REPORT)
        assert second.returncode == ExitCode.DONE, second.stderr
        assert second.stdout.count("29501 =host0") == 3
        first.interrupt()
        assert first.ends() == ExitCode.INTERRUPTED


def test_what_the_user_fixes_stands(lab: Lab) -> None:
    run = start(lab, "--port", "29777", "--interface", "lo", "--nodes", "1", "--", "sh", "-c", REPORT)
    assert run.stdout == "n1:0 | 29777 =lo lo lo\n", run.stderr


def test_a_dry_run_says_what_is_chosen_on_the_node(lab: Lab) -> None:
    run = lab.pylaunch("start", "-i", str(lab.inventory), "--dry-run", "--workdir", "/", "--", "train.py")
    assert "@port@: chosen on n1" in run.stdout
    assert "interface: chosen on the node" in run.stdout
    plan = json.loads(
        lab.pylaunch("start", "-i", str(lab.inventory), "--dry-run", "--json", "--port", "29999", "--", "x.py").stdout
    )
    assert plan["plan"]["master"].endswith(":29999")


def test_a_check_and_a_start_at_the_same_time_do_not_take_the_port_from_each_other(lab: Lab, tmp_path: Path) -> None:
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", "echo up; exec sleep 300") as running:
        running.says("| up", times=3)
        check = lab.pylaunch("check", "-i", str(lab.inventory), "--only", "network", "--json")
        found = [each for each in json.loads(check.stdout)["findings"] if each["check"] == "network.port_free"]
        run = running.stderr.partition("run ")[2].partition(":")[0]
        assert [(each["hosts"], each["severity"]) for each in found] == [(["n1"], "note")]
        assert f"held by run {run}" in found[0]["text"]
        assert "start takes the next one that is free" in found[0]["text"]
        running.interrupt()
        assert running.ends() == ExitCode.INTERRUPTED
    wait_until(
        lambda: start(lab, "--port", "29500", "--", "true").returncode == ExitCode.DONE, "the port is free again"
    )
