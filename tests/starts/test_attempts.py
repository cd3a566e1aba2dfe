"""Runs that are refused, interrupted or started again: how each attempt is recorded, and what its names mean later."""

import json
from collections.abc import Callable
from pathlib import Path

from pylaunch.agent.shared import leases
from pylaunch.base.layout import default_root
from pylaunch.errors import ExitCode
from tests.starts.cluster import CommandLine, DirectoryCluster, ended, says

ONCE_AGAIN = ("--max-restarts", "1", "--", "sh", "-c", "echo $PYLAUNCH_RUN; exit $((1 - TORCHELASTIC_RESTART_COUNT))")


def test_a_host_on_which_a_check_fails_and_a_spare_that_another_run_took_are_replaced(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2", "n3", "n4")
    cluster.inventory.write_text(cluster.inventory.read_text() + "devices=0\n")
    few_files, go = cluster.nodes["n2"].has_few_files(), cluster.inventory.parent / "go"
    # The first attempt leaves n2 in a state in which a check fails there.
    first = f"touch {few_files}; until [ -e {go} ]; do sleep 0.05; done; exit 1"
    job = f"[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; {first}"
    start = cluster.start("--spares", "2", "--max-restarts", "3", "--", "sh", "-c", job)
    says(start, "started in")
    lease = leases.take(leases.device_name(0, str(cluster.nodes["n3"].path / "root"), default_root()))
    assert not isinstance(lease, leases.Holder)
    with lease:
        go.touch()
        finished = ended(start, code=ExitCode.DONE)
    assert "restart 2 of 3 (n3 in place of n2: refused: a rank may have 64 files" in finished.stderr
    assert "restart 3 of 3 (n4 in place of n3: refused: device 0 is leased to pid " in finished.stderr
    assert [each["status"] for each in cluster.outcomes().values()] == ["failed", "refused", "refused", "done"]


def test_a_check_that_fails_everywhere_ends_the_restarts_with_an_outcome(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    few_files = cluster.nodes["n1"].has_few_files()
    job = f"touch {few_files}; exit 1"
    start = ended(cluster.start("--max-restarts", "3", "--", "sh", "-c", job), code=ExitCode.CLUSTER_NOT_READY)
    assert "no restart: 0 of 1 hosts are left, and the run needs 1; left out: n1 (refused: " in start.stderr
    assert [each["status"] for each in cluster.outcomes().values()] == ["failed", "refused"]


def test_every_attempt_has_a_name_that_stays_its_own(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1")
    start = ended(cluster.start(*ONCE_AGAIN), code=ExitCode.DONE)
    run = min(cluster.outcomes())
    assert f"pylaunch explain {run}.0" in start.stderr
    assert cluster.run("logs", f"{run}.0").stdout == f"n1:0 | {run}\n"
    assert cluster.run("logs", run[:5]).stdout == f"n1:0 | {run}.1\n"
    elsewhere = CommandLine(cluster.inventory, cluster.state.with_name("elsewhere"))
    assert elsewhere.run("logs", "-i", str(cluster.inventory), f"{run}.0").stdout == f"n1:0 | {run}\n"


def test_attempts_share_their_directory_and_a_spare_that_joins_gets_the_code(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    """n1 keeps what its rank wrote; n3 takes the place of n2, on which a check fails after the first attempt."""
    cluster = directories("n1", "n2", "n3")
    work = tmp_path / "work"
    work.mkdir()
    written = tmp_path / "written"
    job = f"cat lines snapshot.pt; echo $PYLAUNCH_RUN >> snapshot.pt; touch {cluster.nodes['n2'].has_few_files()}"
    # The first to fail has the others stopped.
    job += f"; [ $RANK != 0 ] || touch {written}; until [ -e {written} ]; do sleep 0.05; done"
    (work / "train.sh").write_text(f"#!/bin/sh\n{job}\n[ $TORCHELASTIC_RESTART_COUNT != 0 ] || exit 1\n")
    (work / "train.sh").chmod(0o755)
    (work / "lines").write_text("shipped\n")
    words = ("--sync", str(work), "--spares", "1", "--max-restarts", "2", "--", "./train.sh")
    start = ended(cluster.begin("start", "-i", str(cluster.inventory), *words), code=ExitCode.DONE)
    run = min(cluster.outcomes())
    assert sorted(cluster.run("logs", f"{run}.2").stdout.splitlines()) == [
        f"n1:0 | {run}", "n1:0 | shipped", "n3:1 | shipped",
    ]  # fmt: skip
    assert f"n1: received 0 of 2 files (0 bytes); ranks continue in {cluster.nodes['n1'].path}/root/trees/{run}" in (
        start.stderr
    )
    assert "n3: received 2 of 2 files" in start.stderr
    assert "a new copy: files that ranks wrote on other hosts are not there" in start.stderr


def test_stopping_a_run_proves_its_earlier_attempts_clean_and_leaves_their_ends_as_they_were(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1")
    assert ended(cluster.start(*ONCE_AGAIN)).returncode == ExitCode.DONE
    run = min(cluster.outcomes())
    changes = {"unproven": ["n1"], "reason": "n1 lost: no heartbeat for 10 s", "status": "failed"}
    lost = {**cluster.outcomes()[run], **changes}
    (cluster.state / "pylaunch" / "runs" / run / "outcome.json").write_text(json.dumps(lost))
    stop = cluster.run("stop", run, code=ExitCode.DONE)
    assert f"run {run}.1 is over: every rank exited with code 0" in stop.stderr
    assert f"run {run} stopped on n1" in stop.stderr
    assert cluster.outcomes()[run] == {**lost, "unproven": []}


def test_the_status_of_a_refused_run_says_why_for_each_host(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    words = ("start", "-i", str(cluster.inventory), "--framework", "command", "--workdir", "/nowhere", "--", "true")
    start = ended(cluster.begin(*words), code=ExitCode.CLUSTER_NOT_READY)
    (reason,) = [line.strip() for line in start.stderr.splitlines() if line.startswith("  n[1-2]: ")]
    (run,) = cluster.outcomes()
    shown = cluster.run("status", run)
    assert f"  {reason}\n" in shown.stderr
    assert f"  hint at that time: {start.stderr.rpartition('hint: ')[2]}" in shown.stderr
    assert "\nhint: " not in shown.stderr
    hosts = json.loads(cluster.run("status", run, "--json").stdout)["outcome"]["hosts"]
    assert [host["refused"] for host in hosts] == [[reason.removeprefix("n[1-2]: ")]] * 2
