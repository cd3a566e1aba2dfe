"""Starting, failing and ending on three real nodes. Ranks are shell scripts and need no environment."""

from collections.abc import Callable
from pathlib import Path

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
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


def test_ctrl_c_while_a_node_does_not_answer_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    with lab["n3"].freeze(), starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", PATIENT) as started:
        wait_until(lambda: of_runs(lab["n1"]), "the first node prepares")
        started.interrupt()
        assert started.ends() == ExitCode.INTERRUPTED
        assert "before any rank was started" in started.stderr
    wait_until(lambda: is_clean(lab), "nothing is left")


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


def test_a_killed_controller_leaves_the_run_alone_and_attach_sees_it_to_its_end(
    lab: Lab, tmp_path: Path, gate: Gate
) -> None:
    """Its connections and the logins on the nodes end with it."""
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", f"echo up $RANK; {gate.wait}; echo end $RANK") as started:
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


def test_a_node_that_is_out_of_contact_for_a_while_is_reached_again_and_the_run_goes_on(
    lab: Lab, tmp_path: Path, gate: Gate
) -> None:
    until_reported = ("sh", "-c", f"echo up $RANK; {gate.wait}")
    with starting(lab, tmp_path, *COMMAND, "--node-timeout", "20", "--", *until_reported) as started:
        started.says("| up", times=3)
        with lab["n2"].cut():
            started.says("n2: no heartbeat for")
        started.says("n2: reached again")
        gate.open()
        assert started.ends() == ExitCode.DONE, started.stderr
    must_be_clean(lab)


def test_a_node_that_is_cut_off_is_lost_after_the_time_asked_for_and_stops_by_itself(lab: Lab, tmp_path: Path) -> None:
    with starting(lab, tmp_path, *COMMAND, "--node-timeout", "12", "--", "sh", "-c", PATIENT) as started:
        started.says("| up", times=3)
        with lab["n2"].cut():
            assert started.ends() == ExitCode.JOB_FAILED
            assert "n2 lost: no heartbeat for 12 s" in started.stderr
            assert "n[1,3]: clean" in started.stderr
            assert "n2: not known to be clean" in started.stderr
            happened = events(lab)
            lost = next(event["time"] for event in happened if event["kind"] == "contact_lost")
            assert next(event["time"] for event in happened if event["kind"] == "ended") - lost < BUSY_S
            wait_until(lambda: not of_runs(lab["n2"]), "n2 hears nobody and stops")
    assert lab.pylaunch("stop", newest(lab), timeout_s=120).returncode == ExitCode.DONE


def test_a_node_that_ends_runs_at_logout_refuses_the_start(fresh_lab: Callable[..., Lab]) -> None:
    lab = fresh_lab(1)
    node = lab["n1"]
    node.run("sh", "-c", "apt-get update -qq && apt-get install -y -qq --no-install-recommends libpam-systemd")
    node.write("/etc/systemd/logind.conf.d/kill.conf", "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n")
    node.run("systemctl", "restart", "systemd-logind")
    refused = lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, "--", "true")
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY
    assert "logind ends what a user leaves running at logout (KillUserProcesses=yes)" in refused.stderr
    assert "root in KillExcludeUsers= of /etc/systemd/logind.conf" in refused.stderr
    must_be_clean(lab)
