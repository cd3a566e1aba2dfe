"""Devices are leased to runs: who has which is shown, and a start can wait for its turn."""

import json
from pathlib import Path

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.lab.by_hand import launcher, with_devices
from tests.lab.controller import listed, starting
from tests.waiting import wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command")


def test_gpus_shows_who_leases_a_device_and_who_holds_it_without_a_lease(lab: Lab, tmp_path: Path) -> None:
    inventory = with_devices(lab, tmp_path, "0,1")
    wants = ("-i", str(inventory), *COMMAND, "--nproc-per-node", "1")
    opened = "exec 9< /dev/nvidia1;"
    lab["n2"].run("touch", "/dev/nvidia1")
    try:
        with starting(lab, tmp_path, *wants, "--", "sh", "-c", "echo up; exec sleep 300") as run:
            run.says("| up", times=3)
            with launcher(lab, "n2", "/tmp/holders", before=opened) as (above, ranks):
                shown = lab.pylaunch("gpus", "-i", str(inventory), "--json", timeout_s=120)
            (live,) = listed(lab)
            run.interrupt()
            run.ends()
    finally:
        lab["n2"].run("rm", "-f", "/dev/nvidia1")
    assert shown.returncode == ExitCode.DONE, shown.stderr
    rows = [(each["host"], row) for each in json.loads(shown.stdout)["hosts"] for row in each["devices"]]
    assert {(host, row["index"]): (row["lease"] or {}).get("run") for host, row in rows} == {
        (name, index): live["run"] if index == 0 else None for name in ("n1", "n2", "n3") for index in (0, 1)
    }
    held = {(host, row["index"]): [each["pid"] for each in row["unleased"]] for host, row in rows if row["unleased"]}
    assert held == {("n2", 1): sorted([above, *ranks])}


def test_a_queued_start_says_what_it_waits_for_and_starts_when_its_turn_has_come(lab: Lab, tmp_path: Path) -> None:
    inventory = with_devices(lab, tmp_path, "0,1")
    wants = ("-i", str(inventory), *COMMAND, "--port", "29500")
    (tmp_path / "second").mkdir()
    with starting(lab, tmp_path, *wants, "--", "sh", "-c", "echo up; exec sleep 300") as first:
        first.says("| up", times=6)
        (live,) = listed(lab)
        with starting(lab, tmp_path / "second", *wants, "--queue", "--", "sh", "-c", "echo mine") as second:
            second.says(f"waiting for n1: devices 0-1, port 29500, run {live['run']} of root since ")
            assert {run["run"]: run["status"] for run in listed(lab)} == {
                live["run"]: "running",
                second.run: "waiting",
            }
            first.interrupt()
            assert first.ends() == ExitCode.INTERRUPTED
            assert second.ends() == ExitCode.DONE, second.stderr
            assert second.stdout.count("| mine") == 6


def test_a_start_that_waits_for_its_turn_is_seen_as_it_is_and_can_be_stopped(lab: Lab, tmp_path: Path) -> None:
    wants = ("-i", str(lab.inventory), *COMMAND, "--port", "29500")
    (tmp_path / "second").mkdir()
    with starting(lab, tmp_path, *wants, "--", "sh", "-c", "echo up; exec sleep 300") as first:
        first.says("| up", times=3)
        with starting(lab, tmp_path / "second", *wants, "--queue", "--", "echo", "mine") as second:
            second.says("waiting for n1: port 29500")
            status = lab.pylaunch("status", second.run)
            assert status.stdout.startswith(f"run {second.run}: waiting, 3 ranks on n[1-3]\n")
            assert status.stderr == ""
            stopped = lab.pylaunch("stop", second.run, timeout_s=120)
            assert stopped.returncode == ExitCode.DONE, stopped.stderr
            assert f"run {second.run} is over: interrupted while waiting, before any rank was started" in stopped.stderr
            assert second.ends() == ExitCode.INTERRUPTED
            assert second.stdout == ""
        assert first.process.poll() is None
        first.interrupt()
        first.ends()


def test_those_who_wait_go_in_the_order_in_which_they_came_and_one_who_leaves_is_not_waited_for(
    lab: Lab, tmp_path: Path
) -> None:
    inventory = with_devices(lab, tmp_path, "0")
    wants = ("-i", str(inventory), *COMMAND)
    places = [tmp_path / name for name in ("one", "two", "three", "four")]
    for place in places:
        place.mkdir()
    with starting(lab, places[0], *wants, "--", "sh", "-c", "echo up; exec sleep 300") as first:
        first.says("| up", times=3)
        with starting(lab, places[1], *wants, "--queue", "--", "true") as leaver:
            leaver.says("waiting for n")
            with starting(lab, places[2], *wants, "--queue", "--", "sh", "-c", "date +%s%N; sleep 1") as second:
                second.says("waiting for n")
                # It wants one node alone, and may not overtake who waits for that node and others.
                only = ("--limit", "n3", "--port", "29700", "--queue")
                with starting(lab, places[3], *wants, *only, "--", "sh", "-c", "date +%s%N") as third:
                    third.says("waiting for n3")
                    leaver.interrupt()
                    assert leaver.ends() == ExitCode.INTERRUPTED
                    first.interrupt()
                    assert second.ends() == ExitCode.DONE, second.stderr
                    assert third.ends() == ExitCode.DONE, third.stderr
                    began = [
                        min(int(line.split()[-1]) for line in each.stdout.splitlines()) for each in (second, third)
                    ]
    assert began[0] < began[1]
    wait_until(lambda: "queue/" not in "".join(n.read("/proc/net/unix") for n in lab), "no place is left")
