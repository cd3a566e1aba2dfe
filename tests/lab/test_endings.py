"""Every way to end, on three real nodes: without a controller, with a node gone, in the background, from elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.lab import Lab
from lab.nodes.node import LabNode
from pylaunch.errors import ExitCode
from pylaunch.transport.process import Completed
from tests.lab.controller import Gate, events, is_clean, listed, must_be_clean, newest, of_runs, starting
from tests.waiting import wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command")
PATIENT = "echo up $RANK; exec sleep 300"
BUSY_S = 30.0
"""Far more than the end of all nodes takes on a busy machine; far less than a silent node is waited for."""


def detached(lab: Lab, *arguments: str) -> str:
    """Start in the background; the run's id."""
    started = lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, "--detach", *arguments, timeout_s=120)
    assert started.returncode == ExitCode.DONE, started.stderr
    return started.stderr.split()[1].rstrip(":")


def elsewhere(lab: Lab, directory: Path, *arguments: str) -> Completed:
    """pylaunch as on a machine that has never seen the run, and has the inventory."""
    verb, *rest = arguments
    return lab.pylaunch(
        verb, "-i", str(lab.inventory), *rest, env={"XDG_STATE_HOME": str(directory / "elsewhere")}, timeout_s=120
    )


def reported(node: LabNode, run: str) -> list[dict[str, Any]]:
    """Events that the agent of `node` recorded."""
    path = f"/var/tmp/pylaunch-0/runs/{run}/events.jsonl"
    return [json.loads(line) for line in node.run("cat", path).stdout.splitlines()]


def test_without_a_controller_a_failure_on_one_node_stops_all_at_once(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    script = f"[ $RANK = 1 ] || {{ {PATIENT}; }}; echo up $RANK; {gate.wait}; exit 9"
    with starting(lab, tmp_path, *COMMAND, "--node-timeout", "120", "--", "sh", "-c", script) as started:
        started.says("| up", times=3)
        run = newest(lab)
        started.kill()
    gate.open("n2")
    wait_until(lambda: is_clean(lab), "all nodes have stopped without an order")
    failed = next(event["time"] for event in reported(lab["n2"], run) if event["type"] == "RankEnd")
    for node in (lab["n1"], lab["n3"]):
        happened = reported(node, run)
        reasons = [event["reason"] for event in happened if event["type"] == "Stopping"]
        assert reasons == ["n2: rank 1 ended with exit code 9"]
        assert next(event["time"] for event in happened if event["type"] == "Finished") - failed < BUSY_S
    attached = lab.pylaunch("attach", run, timeout_s=120)
    assert attached.returncode == ExitCode.JOB_FAILED
    assert "rank 1 on n2 exited with code 9" in attached.stderr


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


def test_a_detached_run_is_found_and_followed_from_a_machine_that_never_saw_it(
    lab: Lab, tmp_path: Path, gate: Gate
) -> None:
    run = detached(lab, "--", "sh", "-c", f"echo up $RANK; {gate.wait}")
    assert json.loads(lab.pylaunch("status", run, "--json").stdout)["controller"] is not None
    logs = wait_until(lambda: elsewhere(lab, tmp_path, "logs", run, "--rank", "2").stdout, "the first line")
    assert logs == "n3:2 | up 2\n"
    assert [each["run"] for each in json.loads(elsewhere(lab, tmp_path, "ps", "--json").stdout)["runs"]] == [run]
    gate.open()
    attached = elsewhere(lab, tmp_path, "attach", run)
    assert attached.returncode == ExitCode.DONE, attached.stderr
    assert sorted(attached.stdout.splitlines()) == [f"n{rank + 1}:{rank} | up {rank}" for rank in range(3)]
    must_be_clean(lab)
    status = {}

    def has_ended() -> bool:
        status.update(json.loads(lab.pylaunch("status", run, "--json").stdout))
        return status["controller"] is None

    wait_until(has_ended, "the controller in the background has seen the end too")
    assert status["outcome"]["status"] == "done"


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


def test_a_run_that_may_be_restarted_is_stopped_from_elsewhere_for_good(lab: Lab, tmp_path: Path) -> None:
    script = "trap 'exit 1' TERM; echo up $RANK; while :; do sleep 0.1; done"
    with starting(lab, tmp_path, *COMMAND, "--max-restarts", "3", "--", "sh", "-c", script) as started:
        started.says("| up", times=3)
        stopped = elsewhere(lab, tmp_path, "stop")
        assert stopped.returncode == ExitCode.DONE, stopped.stderr
        assert started.ends() == ExitCode.INTERRUPTED, started.stderr
        assert " stopped: stopped with pylaunch stop by " in started.stderr
        assert "restart 1" not in started.stderr
    must_be_clean(lab)


def test_all_runs_are_stopped_at_once_from_anywhere(lab: Lab, tmp_path: Path) -> None:
    detached(lab, "--port", "29600", "--", "sh", "-c", PATIENT)
    detached(lab, "--port", "29700", "--", "sh", "-c", PATIENT)
    stopped = elsewhere(lab, tmp_path, "stop", "--all")
    assert stopped.returncode == ExitCode.DONE, stopped.stderr
    assert stopped.stderr.count("n[1-3]: clean") == 2
    must_be_clean(lab)
    assert listed(lab) == []


def test_a_run_can_be_run_again(lab: Lab) -> None:
    asked = ("--env", "WORD=once more", "--", "sh", "-c", "echo $WORD")
    lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, "--nodes", "2", *asked, timeout_s=120)
    first = newest(lab)
    again = lab.pylaunch("rerun", first, timeout_s=120)
    assert sorted(again.stdout.splitlines()) == ["n1:0 | once more", "n2:1 | once more"]
    assert f"rerun of {first}: WORD='once more' sh -c" in again.stderr
    assert newest(lab) != first
