"""Spares hold their devices for the run until it ends, and a lost spare is reported at once."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest

from pylaunch.agent.shared import leases
from pylaunch.base.layout import default_root
from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.follow.run_events import Notice, RunEvent
from pylaunch.runs.prepare import archive, spares
from tests.starts.cluster import Directory, DirectoryCluster, ended, says
from tests.waiting import wait_until

T = TypeVar("T")
JOB = JobSpec(("true",), Framework.COMMAND, "/", spares=1, max_restarts=1)


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch) -> DirectoryCluster:
    """Three nodes with a device each."""
    monkeypatch.setattr(leases, "ANSWER_S", 60.0)  # Of this process: a holder may be slow on a busy machine.
    made = directories("n1", "n2", "n3")
    made.inventory.write_text(made.inventory.read_text() + "devices=0\n")
    return made


def lease_of(node: Directory) -> str:
    return leases.device_name(0, str(node.path / "root"), default_root())


def holder(node: Directory) -> leases.Holder | None:
    return leases.holder(lease_of(node))


def test_a_spare_is_nobody_elses_while_the_run_goes_on(cluster: DirectoryCluster) -> None:
    start = cluster.start("--spares", "1", "--max-restarts", "1", "--", "sleep", "300")
    says(start, "started in")
    (run,) = cluster.outcomes()
    kept = wait_until(lambda: holder(cluster.nodes["n3"]), "the spare is held")
    assert kept is not None
    assert (kept.run, kept.is_spare) == (run, True)
    other = ended(cluster.start("--limit", "n3", "--", "true"), code=ExitCode.CLUSTER_NOT_READY)
    assert f"device 0 is leased to run {run} of " in other.stderr
    assert "(as a spare)" in other.stderr
    assert f"pylaunch stop {run}" in other.stderr
    start.send_signal(signal.SIGINT)
    assert ended(start).returncode == ExitCode.INTERRUPTED
    wait_until(lambda: holder(cluster.nodes["n3"]) is None, "the spare is free")


def test_what_a_spare_holds_is_there_for_the_attempt_that_needs_it(cluster: DirectoryCluster) -> None:
    few_files = cluster.nodes["n2"].has_few_files()
    job = f"[ $TORCHELASTIC_RESTART_COUNT = 0 ] && touch {few_files} && exit 1; exit 0"
    start = ended(cluster.start("--spares", "1", "--max-restarts", "2", "--", "sh", "-c", job), code=ExitCode.DONE)
    assert "restart 2 of 2 (n3 in place of n2: refused: a rank may have 64 files" in start.stderr
    assert "is leased to" not in start.stderr


class Reported:
    """Keeps the reports about spares."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, event: RunEvent) -> None:
        assert isinstance(event, Notice), event
        self.lines.append(event.text)


def standing_by(cluster: DirectoryCluster, story: Callable[[Reported], Coroutine[None, None, None]]) -> None:
    """`story` while the spare n3 of a run on n1 and n2 is kept ready."""
    plan, reported = plan_run(load_cluster(cluster.inventory), JOB, "7f3a9c01"), Reported()

    async def play() -> None:
        async with spares.standing_by(plan, archive.build().version, reported):
            await story(reported)

    asyncio.run(play())


async def until(condition: Callable[[], T | None]) -> T:
    """Return the first true value of `condition`, while everything else continues."""
    async with asyncio.timeout(60):
        while not (value := condition()):
            await asyncio.sleep(0.01)
    return value


def test_a_lost_spare_is_reported_and_held_again(cluster: DirectoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "RETRY_S", 0.1)
    spare = cluster.nodes["n3"]

    async def story(reported: Reported) -> None:
        first = await until(lambda: holder(spare))
        assert reported.lines == []
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: len(reported.lines) == 2)
        again = await until(lambda: holder(spare))
        assert (again.run, again.pid != first.pid) == ("7f3a9c01", True)
        assert reported.lines[0].startswith("note: spare n3 is not ready: the connection to its agent ended (")
        assert reported.lines[1] == "note: spare n3 is ready again"

    standing_by(cluster, story)
    wait_until(lambda: holder(spare) is None, "the spare is free")


def test_a_spare_that_somebody_took_first_is_reported_with_its_holder(
    cluster: DirectoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spares, "RETRY_S", 0.1)
    taken = leases.take(lease_of(cluster.nodes["n3"]))
    assert not isinstance(taken, leases.Holder)

    async def story(reported: Reported) -> None:
        await until(lambda: reported.lines)
        (line,) = reported.lines
        assert line.startswith(f"note: spare n3 is not ready: device 0 is leased to pid {os.getpid()} of ")
        assert line.endswith("; who holds what: pylaunch gpus")
        taken.close()
        await until(lambda: reported.lines[1:] == ["note: spare n3 is ready again"])

    standing_by(cluster, story)
