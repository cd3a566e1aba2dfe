"""A start finds what `pylaunch check` finds, before any rank exists: a one-way block of ports, a clock."""

import json
import re
from typing import Any

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.lab.faults_network import one_way_filtered

JOB = ("--framework", "direct", "--workdir", "/tmp", "--python", "/usr/bin/python3")
SCRIPT = "/tmp/start_checks.py"


@pytest.fixture
def job(lab: Lab) -> tuple[str, ...]:
    for node in lab:
        node.write(SCRIPT, "print('a rank ran')\n")
    return ("start", "-i", str(lab.inventory), *JOB)


def failed_check(lab: Lab, check: str) -> dict[str, Any]:
    """The finding of `check`, with the same words."""
    deciding = "reach,storage,time,network,python_env"
    words = ("--python", "/usr/bin/python3", "--only", deciding, "--json")
    found = lab.pylaunch("check", "-i", str(lab.inventory), *words)
    assert found.returncode == ExitCode.CLUSTER_NOT_READY, found.stderr
    document = json.loads(found.stdout)
    failed, *_ = [each for each in document["findings"] if each["severity"] == "fail"]
    assert failed["check"] == check
    broken: dict[str, Any] = failed
    return broken


def test_ports_blocked_in_one_direction_refuse_a_start_and_both_hosts_are_named(lab: Lab, job: tuple[str, ...]) -> None:
    with one_way_filtered(lab, lab["n1"], lab["n2"]):
        started = lab.pylaunch(*job, "--", SCRIPT)
        assert (started.returncode, started.stdout) == (ExitCode.CLUSTER_NOT_READY, ""), started.stderr
        assert "FAIL  n1: connections from it to ephemeral ports of n2 get no answer" in started.stderr
        mends = f"pylaunch provision -i {lab.inventory} --roles firewall"
        setting = "firewall_enabled=true in the inventory"
        assert f"fix: open TCP ephemeral ports between the members: {setting}, then {mends}" in started.stderr
        assert "started in" not in started.stderr, "no rank had to find out"
        # Programs that do not talk to each other are warned of it.
        alone = lab.pylaunch(
            "start", "-i", str(lab.inventory), "--framework", "command", "--workdir", "/", "--", "true"
        )
        assert alone.ok, alone.stderr
        assert "warn  n1: connections from it to ephemeral ports of n2" in alone.stderr
        found = failed_check(lab, "network.ports")
        assert found["hosts"] == ["n1"]
        assert re.match(r"connections from it to ephemeral ports .*of n2 get no answer", found["text"])
        assert mends in found["fix"]
    assert lab.pylaunch(*job, "--", SCRIPT).stdout.count("a rank ran") == 3


def test_a_clock_that_is_20_s_off_refuses_a_start(lab: Lab, job: tuple[str, ...]) -> None:
    with lab["n2"].shift_clock(20):
        started = lab.pylaunch(*job, "--", SCRIPT)
        assert (started.returncode, started.stdout) == (ExitCode.CLUSTER_NOT_READY, ""), started.stderr
        assert re.search(r"FAIL  n2: its clock is (19|20)\.\d s ahead of the others", started.stderr)
        found = failed_check(lab, "time.offset")
        assert found["hosts"] == ["n2"]
        assert re.match(r"its clock is (19|20)\.\d s ahead of the others", found["text"])
        assert found["fix"] == f"pylaunch provision -i {lab.inventory} --roles time_sync"
        in_spite = lab.pylaunch(*job, "--skip", "time.offset", "--", SCRIPT)
        assert in_spite.stdout.count("a rank ran") == 3, in_spite.stderr
