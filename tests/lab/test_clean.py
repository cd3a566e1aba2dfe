"""`pylaunch clean` and `gpus`: what nobody runs any more is ended when wanted; live runs and others are left alone."""

import json
from pathlib import Path

from lab.images.recipe import USER
from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.by_hand import alive, launcher, listener, pids, with_devices
from tests.lab.controller import listed, must_be_clean, starting
from tests.waiting import wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command", "--port", "29600")


def clean(lab: Lab, *arguments: str) -> Completed:
    return lab.pylaunch("clean", "-i", str(lab.inventory), *arguments, timeout_s=120)


def test_what_a_killed_launcher_left_is_shown_and_ended_when_wanted_and_a_live_run_is_not_touched(
    lab: Lab, tmp_path: Path
) -> None:
    node = lab["n1"]
    with (
        starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", "echo up $RANK; exec sleep 300") as run,
        launcher(lab, "n1", "/tmp/left") as (killed, ranks),
        launcher(lab, "n1", "/tmp/lives") as (living, working),
        listener(lab, "n1", 29500, "/tmp/listens") as holder,
    ):
        run.says("| up", times=3)
        node.run("kill", "-KILL", str(killed))
        shown = clean(lab, "--dry-run")
        assert shown.returncode == ExitCode.DONE
        for pid in (*ranks, holder):
            assert f"n1: left over: pid {pid} " in shown.stderr
        assert "listens on port 29500" in shown.stderr
        asked = clean(lab)
        assert asked.returncode == ExitCode.CLUSTER_NOT_READY
        assert f"hint: pylaunch clean -i {lab.inventory} --yes --limit n1" in asked.stderr
        assert alive(node, *ranks, holder) == [*ranks, holder]
        ended = clean(lab, "--yes", "--json")
        assert ended.returncode == ExitCode.DONE, ended.stderr
        reported = {each["host"]: each for each in json.loads(ended.stdout)["hosts"]}
        assert sorted(each["pid"] for each in reported["n1"]["stale"]) == sorted([*ranks, holder])
        assert reported["n1"]["stale_now"] == []
        assert "n[1-3]: clean" in ended.stderr
        assert alive(node, *ranks, holder) == []
        assert alive(node, living, *working) == [living, *working]
        assert run.process.poll() is None
        run.interrupt()
        assert run.ends() == ExitCode.INTERRUPTED
    must_be_clean(lab)


def test_a_start_with_clean_ends_leftover_processes_first(lab: Lab) -> None:
    with listener(lab, "n1", 29500, "/tmp/listens") as holder:
        words = ("--workdir", "/tmp", "--framework", "command", "--clean", "--", "true")
        run = lab.pylaunch("start", "-i", str(lab.inventory), *words, timeout_s=120)
        assert run.returncode == ExitCode.DONE, run.stderr
        assert f"n1: ended pid {holder} (python3 " in run.stderr
        assert alive(lab["n1"], holder) == []


def test_another_users_process_is_named_and_never_touched(lab: Lab) -> None:
    node = lab["n2"]
    words = "sleep 300 > /dev/null 2>&1 & echo $! > /tmp/theirs.pid"
    marks = ("RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=n2")
    node.run("setsid", "runuser", "-u", USER, "--", "env", *marks, "sh", "-c", words)
    (pid,) = pids(node, "/tmp/theirs.pid")
    wait_until(lambda: node.read(f"/proc/{pid}/comm") == "sleep\n", "their program")
    try:
        ended = clean(lab, "--yes")
        assert ended.returncode == ExitCode.DONE, ended.stderr
        assert f"n2: another user's: pid {pid} (sleep 300) of {USER}" in ended.stderr
        assert alive(node, pid) == [pid]
    finally:
        node.run("kill", "-KILL", str(pid))
        node.run("rm", "-f", "/tmp/theirs.pid")


def test_gpus_shows_who_leases_a_device_and_who_holds_it_without_a_lease(lab: Lab, tmp_path: Path) -> None:
    inventory = with_devices(lab, tmp_path, "0,1")
    wants = ("-i", str(inventory), "--workdir", "/tmp", "--framework", "command", "--nproc-per-node", "1")
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
