"""Files on their way to three real nodes, one of which is full."""

import json
import os
import subprocess
from pathlib import Path

from lab.lab import Lab
from lab.node_faults.faults import Fill, Isolate, inject
from pylaunch.agent.piped.piece_source import PIECE
from pylaunch.errors import ExitCode
from pylaunch.terminal.options import LEAST_RATE
from tests.waiting import wait_until

SIZE = 24 << 20


def test_nodes_pass_a_file_on_and_a_full_one_costs_the_others_nothing(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(os.urandom(SIZE))
    lab["n1"].run("mkdir", "-p", "/srv/pushed")
    push = (
        "push",
        "-i",
        str(lab.inventory),
        "--json",
        "--limit-rate",
        str(1000 * LEAST_RATE),
        str(file),
        "/srv/pushed/",
    )
    with inject(lab["n1"], Fill("/srv/pushed")):
        full = lab.pylaunch(*push, timeout_s=120)
    assert full.returncode == ExitCode.CLUSTER_NOT_READY
    document = json.loads(full.stdout)
    assert "bytes are needed and" in document["hosts"][0]["refused"]
    assert sum(host["from_controller"] for host in document["hosts"]) < 2 * SIZE  # A slow piece is sent twice.
    done = lab.pylaunch(*push, timeout_s=120)
    assert done.returncode == ExitCode.DONE, done.stderr
    first = json.loads(done.stdout)["hosts"][0]
    assert first["from_controller"] < SIZE  # The nodes that have it sent the rest.
    sums = {node.run("sha256sum", "/srv/pushed/blob").stdout.split()[0] for node in lab}
    assert sums == {document["files"][0]["sha256"]}
    for name in ("n2", "n3"):
        lab[name].run("rm", "/srv/pushed/blob")
    from_node = lab.pylaunch(
        "push", "-i", str(lab.inventory), "--json", "n1:/srv/pushed/blob", "/srv/pushed/", timeout_s=120
    )
    assert from_node.returncode == ExitCode.DONE, from_node.stderr
    hosts = json.loads(from_node.stdout)["hosts"]
    assert [(host["host"], host["had"], host["from_controller"]) for host in hosts] == [("n2", 0, 0), ("n3", 0, 0)]
    assert {node.run("sha256sum", "/srv/pushed/blob").stdout.split()[0] for node in lab} == sums
    for node in lab:
        node.run("rm", "-r", "/srv/pushed")


def test_a_node_that_reaches_no_other_is_served_from_here_and_one_that_loses_power_delays_nobody(
    lab: Lab, tmp_path: Path
) -> None:
    file = tmp_path / "blob"
    file.write_bytes(os.urandom(SIZE))
    words = ("push", "-i", str(lab.inventory), "--json", "--limit-rate", "4MB", str(file), "/srv/passed/")
    with inject(lab["n3"], Isolate()):
        push = subprocess.Popen(
            lab.command(*words), env={**os.environ, **lab.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        wait_until(
            lambda: lab["n2"].run("sh", "-c", "ls /srv/passed/.pylaunch-push-*", check=False).stdout, "n2 receives"
        )
        with lab["n2"].kill():
            stdout, _ = push.communicate(timeout=180)
    assert push.returncode == ExitCode.CLUSTER_NOT_READY
    document = json.loads(stdout)
    hosts = {host["host"]: host for host in document["hosts"]}
    assert hosts["n2"]["unreachable"] is not None
    assert hosts["n3"]["from_controller"] >= SIZE
    for name in ("n1", "n3"):
        assert hosts[name]["unreachable"] is None
        assert lab[name].run("sha256sum", "/srv/passed/blob").stdout.split()[0] == document["files"][0]["sha256"]
    for node in lab:
        node.run("rm", "-r", "/srv/passed")


def test_a_push_whose_controller_is_killed_continues_when_it_is_started_again(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(os.urandom(SIZE))
    words = ("push", "-i", str(lab.inventory), "--json", str(file), "/srv/again/")
    push = subprocess.Popen(
        lab.command(*words, "--limit-rate", "2MB"),
        env={**os.environ, **lab.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )

    def received() -> int:
        du = lab["n2"].run("sh", "-c", "du -s --block-size=1 /srv/again/.pylaunch-push-*", check=False).stdout
        return int(du.split()[0]) if du else 0

    wait_until(lambda: received() > 2 * PIECE, "n2 has a piece")
    push.kill()
    push.communicate()
    done = lab.pylaunch(*words, timeout_s=180)
    assert done.returncode == ExitCode.DONE, done.stderr
    document = json.loads(done.stdout)
    hosts = {host["host"]: host for host in document["hosts"]}
    assert hosts["n2"]["had"] >= PIECE
    assert sum(host["from_controller"] for host in document["hosts"]) < 2 * SIZE
    for node in lab:
        assert node.run("sha256sum", "/srv/again/blob").stdout.split()[0] == document["files"][0]["sha256"]
        node.run("rm", "-r", "/srv/again")
