"""One clock for the whole cluster."""

from __future__ import annotations

import csv

import pytest
from conftest import RoleVariables
from testinfra.host import Host

pytestmark = pytest.mark.role("time_sync")

RIVALS = ("systemd-timesyncd.service", "ntp.service", "ntpsec.service", "openntpd.service")
CAP_SYS_TIME = 1 << 25


def test_chrony_runs_and_nothing_else_sets_the_clock(variables: RoleVariables, host: Host) -> None:
    assert host.check_output("systemctl is-active chrony.service") == "active"
    for rival in RIVALS:
        assert host.run("systemctl is-active %s", rival).stdout.strip() != "active", rival


def test_chronyd_accepts_its_configuration(variables: RoleVariables, host: Host) -> None:
    read = host.run("/usr/sbin/chronyd -p")
    assert read.rc == 0, read.stderr
    assert "makestep 1.0 3" in read.stdout.splitlines()
    for server in variables["time_sync_servers"]:
        assert any(line.startswith(f"server {server['host']} ") for line in read.stdout.splitlines())


def test_the_clock_follows_a_source_or_says_that_it_does_not(
    variables: RoleVariables, host: Host, name: str, capabilities: int
) -> None:
    tracking = host.run("chronyc -c -n tracking")
    assert tracking.rc == 0, f"chronyd does not answer: {tracking.stdout}"
    (row,) = csv.reader(tracking.stdout.splitlines())
    reference, leap, offset = row[0], row[13], abs(float(row[4]))
    if leap == "Not synchronised":
        pytest.skip(f"no source is reachable from {name}; its clock follows nothing")
    if not capabilities & CAP_SYS_TIME:
        pytest.skip(f"the clock of {name} is not ours to set; it is {offset:.6f} s from {reference}")
    assert offset < 0.1
