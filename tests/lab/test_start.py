"""Starting, failing, stopping and coming back, on three real nodes. Ranks are shell scripts and need no environment."""

import json
from collections.abc import Callable
from pathlib import Path

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.by_hand import with_devices
from tests.lab.controller import Gate, events, is_clean, listed, must_be_clean, newest, of_runs, starting
from tests.waiting import wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command")
PATIENT = "echo up $RANK; exec sleep 300"
BUSY_S = 30.0
"""Far more than the end of all nodes takes on a busy machine; far less than a silent node is waited for."""


def start(lab: Lab, *arguments: str) -> Completed:
    return lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, *arguments, timeout_s=300)


def test_every_rank_knows_its_place_and_the_skew_is_reported(lab: Lab) -> None:
    run = start(lab, "--nproc-per-node", "2", "--", "sh", "-c", "echo $RANK/$WORLD_SIZE $LOCAL_RANK $(uname -n)")
    assert run.returncode == ExitCode.DONE, run.stderr
    assert sorted(run.stdout.splitlines()) == [
        f"n{1 + rank // 2}:{rank} | {rank}/6 {rank % 2} n{1 + rank // 2}" for rank in range(6)
    ]
    assert "release skew" in run.stderr
    assert "n[1-3]: clean" in run.stderr
    must_be_clean(lab)


def test_a_run_can_be_looked_at_afterwards(lab: Lab) -> None:
    start(lab, "--", "sh", "-c", "echo out $RANK; echo err $RANK >&2")
    logs = lab.pylaunch("logs", "--rank", "1", newest(lab))
    assert logs.stdout == "n2:1 | out 1\n"
    assert logs.stderr == "n2:1 | err 1\n"
    last = listed(lab, "--all")[0]
    assert (last["status"], last["hosts"], last["ranks"]) == ("done", ["n1", "n2", "n3"], 3)
    status = json.loads(lab.pylaunch("status", last["run"][:5], "--json").stdout)
    assert status["outcome"]["status"] == "done"
    assert set(status["start_seconds"]) == {"connect", "prepare", "release", "skew"}
    seconds = {node["host"]: set(node["start_seconds"]) for node in status["nodes"]}
    assert set(seconds) == {"n1", "n2", "n3"}
    assert {"connect", "prepare", "exec"} <= seconds["n2"]


def test_the_first_failing_rank_stops_all_and_is_named_with_its_last_lines(lab: Lab) -> None:
    run = start(lab, "--", "sh", "-c", "[ $RANK = 1 ] && { echo 'CUDA out of memory' >&2; exit 7; }; sleep 300")
    assert run.returncode == ExitCode.JOB_FAILED
    assert "rank 1 on n2 exited with code 7; the other 2 ranks stopped with it\n  CUDA out of memory\n" in run.stderr
    assert "n[1-3]: clean" in run.stderr
    must_be_clean(lab)


def test_a_killed_rank_is_named_with_its_signal_and_all_is_over_at_once(lab: Lab) -> None:
    run = start(lab, "--node-timeout", "120", "--", "sh", "-c", "[ $RANK = 2 ] && kill -KILL $$; sleep 300")
    assert "rank 2 on n3 was killed by SIGKILL" in run.stderr
    happened = events(lab)
    failed = min(event["time"] for event in happened if event["kind"] == "rank_ended")
    assert next(event["time"] for event in happened if event["kind"] == "ended") - failed < BUSY_S


def test_all_reasons_of_all_nodes_are_printed_at_once_and_nothing_starts(lab: Lab) -> None:
    with lab["n1"].occupy(29500), lab["n2"].fill("/var/tmp"), lab["n3"].cut():
        run = start(lab, "--port", "29500", "--start-timeout", "60", "--", "sh", "-c", "touch /tmp/a-rank-was-here")
    assert run.returncode == ExitCode.CLUSTER_NOT_READY
    assert "3 of 3 hosts cannot take part" in run.stderr
    assert "n1: port 29500 is held by " in run.stderr
    assert "n2: " in run.stderr
    assert "n3: ssh " in run.stderr
    for node in lab:
        assert not node.run("test", "-e", "/tmp/a-rank-was-here", check=False).ok
    wait_until(lambda: is_clean(lab), "the agents of a start that was refused end")


def test_a_script_that_is_not_on_the_nodes_is_named(lab: Lab) -> None:
    python = ("--python", "/usr/bin/python3")
    run = lab.pylaunch("start", "-i", str(lab.inventory), "--workdir", "/tmp", *python, "--", "train.py")
    assert run.returncode == ExitCode.CLUSTER_NOT_READY
    assert "n[1-3]: /tmp/train.py does not exist" in run.stderr


def test_a_missing_environment_is_reported_with_the_command_that_makes_it(lab: Lab) -> None:
    run = lab.pylaunch("start", "-i", str(lab.inventory), "--workdir", "/etc", "--", "passwd.py")
    assert "/opt/pylaunch/current/bin/python does not exist" in run.stderr
    named = f"-i {lab.inventory}"
    first, then = f"pylaunch env lock {named} requirements.txt", f"pylaunch provision {named} --roles python_env"
    assert (
        f"pylaunch_python= in the inventory one for each host; this one is installed by: {first} && {then}\n"
        in run.stderr
    )


def test_ctrl_c_stops_the_run_and_proves_that_nothing_is_left(lab: Lab, tmp_path: Path) -> None:
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", PATIENT) as started:
        started.says("| up", times=3)
        started.interrupt()
        assert started.ends() == ExitCode.INTERRUPTED
        assert "n[1-3]: clean" in started.stderr
    must_be_clean(lab)


def test_a_second_ctrl_c_does_not_wait_for_ranks_that_ignore_the_first(lab: Lab, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 1; done"
    with starting(lab, tmp_path, *COMMAND, "--grace", "600", "--", "sh", "-c", stubborn) as started:
        started.says("| up", times=3)
        started.interrupt()
        started.says("Ctrl-C again kills at once")
        started.interrupt()
        assert started.ends() == ExitCode.INTERRUPTED
        assert "n[1-3]: clean" in started.stderr
    must_be_clean(lab)


def test_a_killed_controller_leaves_the_run_alone_and_attach_sees_it_to_its_end(
    lab: Lab, tmp_path: Path, gate: Gate
) -> None:
    script = f"echo up $RANK; {gate.wait}; echo end $RANK"
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", script) as started:
        started.says("| up", times=3)
        started.kill()
    live = listed(lab)
    assert [run["status"] for run in live] == ["running"]
    gate.open()
    attached = lab.pylaunch("attach", live[0]["run"], timeout_s=120)
    assert attached.returncode == ExitCode.DONE, attached.stderr
    assert sorted(attached.stdout.splitlines()) == [
        f"{place} | {word} {rank}" for rank, place in enumerate(("n1:0", "n2:1", "n3:2")) for word in ("end", "up")
    ]
    must_be_clean(lab)


def test_a_run_whose_controller_died_can_be_stopped(lab: Lab, tmp_path: Path) -> None:
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", PATIENT) as started:
        started.says("| up", times=3)
        started.kill()
    stopped = lab.pylaunch("stop", newest(lab), timeout_s=120)
    assert stopped.returncode == ExitCode.DONE, stopped.stderr
    assert "n[1-3]: clean" in stopped.stderr
    must_be_clean(lab)
    assert listed(lab) == []


def test_a_controller_killed_while_it_stops_a_run_has_stopped_it(lab: Lab, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 1; done"
    with starting(lab, tmp_path, *COMMAND, "--grace", "2", "--", "sh", "-c", stubborn) as started:
        started.says("| up", times=3)
        started.interrupt()
        started.says("Ctrl-C again kills at once")
        started.says("stopping all nodes")
        started.kill()
    wait_until(lambda: is_clean(lab), "the nodes continue without it: KILL after the grace period")
    assert listed(lab, "--all")[0]["status"] == "stopped"


def test_a_controller_killed_while_preparing_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    with lab["n3"].freeze(), starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", PATIENT) as started:
        wait_until(lambda: of_runs(lab["n1"]) and of_runs(lab["n2"]), "the first two nodes prepare")
        started.kill()
        wait_until(lambda: not of_runs(lab["n1"]) and not of_runs(lab["n2"]), "their agents give up")
    wait_until(lambda: is_clean(lab), "the third node is clean too")


def test_ctrl_c_while_a_node_does_not_answer_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    with lab["n3"].freeze(), starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", PATIENT) as started:
        wait_until(lambda: of_runs(lab["n1"]), "the first node prepares")
        started.interrupt()
        assert started.ends() == ExitCode.INTERRUPTED
        assert "before any rank was started" in started.stderr
    wait_until(lambda: is_clean(lab), "nothing is left")


def test_a_second_start_on_leased_devices_is_refused_with_the_run_that_has_them(lab: Lab, tmp_path: Path) -> None:
    inventory = with_devices(lab, tmp_path, "0,1")
    devices = ("-i", str(inventory), *COMMAND, "--port", "29600", "--", "sh", "-c", PATIENT)
    with starting(lab, tmp_path, *devices) as started:
        started.says("| up", times=6)
        second = lab.pylaunch("start", "-i", str(inventory), *COMMAND, "--port", "29700", "--", "true")
        run = str(listed(lab)[0]["run"])
        assert second.returncode == ExitCode.CLUSTER_NOT_READY
        assert f"n[1-3]: device 0 is leased to run {run}" in second.stderr
        assert f"pylaunch stop {run}" in second.stderr
        started.interrupt()
        assert started.ends() == ExitCode.INTERRUPTED
    assert lab.pylaunch("start", "-i", str(inventory), *COMMAND, "--", "true").returncode == ExitCode.DONE


def test_a_node_that_dies_ends_the_run_and_is_named(fresh_lab: Callable[..., Lab], tmp_path: Path) -> None:
    lab = fresh_lab(3)
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", PATIENT) as started:
        started.says("| up", times=3)
        lab["n2"].kill()
        assert started.ends() == ExitCode.JOB_FAILED
    assert "n2 lost: no heartbeat for 10 s" in started.stderr
    assert "n[1,3]: clean" in started.stderr
    assert "n2: not known to be clean" in started.stderr
    living = [lab["n1"], lab["n3"]]
    assert not [found for node in living for found in of_runs(node) if found.startswith("rank")]
    wait_until(lambda: not any(of_runs(node) for node in living), "the agents give up sending to the dead node")


def test_a_node_without_python_is_named_with_what_to_do(fresh_lab: Callable[..., Lab]) -> None:
    lab = fresh_lab(2)
    lab["n2"].run("mv", "/usr/bin/python3", "/usr/bin/python3.hidden")
    run = start(lab, "--", "true")
    assert run.returncode == ExitCode.CLUSTER_NOT_READY
    assert "n2: no Python at /usr/bin/python3" in run.stderr
    assert "pylaunch provision" in run.stderr
    # The package is installed, so that installing it again changes nothing.
    provision = lab.pylaunch("provision", "-i", str(lab.inventory), "--limit", "n2", timeout_s=300)
    assert provision.returncode == ExitCode.PROVISION_FAILED, provision.stderr
    assert "no interpreter at /usr/bin/python3, although package python3 is installed" in provision.stderr
    assert "hint: on n2: apt-get install --reinstall python3-minimal" in provision.stderr
