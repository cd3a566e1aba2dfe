"""Files on their way to three real nodes, one of which is full."""

import json
import os
import subprocess
from pathlib import Path

from lab.lab import Lab
from lab.node_faults.faults import Isolate, inject
from pylaunch.errors import ExitCode
from tests.waiting import wait_until

SIZE = 24 << 20


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
