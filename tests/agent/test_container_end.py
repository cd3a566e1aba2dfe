"""End of the container of a run, beside the loop of its agent: what is proven, and what happens meanwhile."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent import containers
from pylaunch.agent.containers import JoinableContainer
from pylaunch.agent.run import checks, lifecycle
from pylaunch.agent.run.environment import RefusedError
from pylaunch.agent.run.holdings import Holdings
from pylaunch.agent.run.prepare import prepare_run
from pylaunch.agent.run.run import Run
from pylaunch.agent.run.worker_group import RankConnection, WorkerGroup
from pylaunch.agent.serve.supervisor import Supervisor
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.record import Record
from pylaunch.base.layout import open_root
from pylaunch.protocol.node_task import ContainerTask
from tests.agent.controller import task
from tests.waiting import wait_until

Make = Callable[[Callable[[], list[str]]], Run]


class Container(JoinableContainer):
    """A container whose end is that of a function."""

    def __init__(self, end: Callable[[], list[str]]) -> None:
        self.processes = set()
        self.env = {}
        self.end = end  # type: ignore[method-assign]


@pytest.fixture
def ended_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a run whose launcher has ended well, and whose container ends as a function."""
    monkeypatch.setattr(os, "waitpid", lambda pid, options: (0, 0))  # The children are those of the tests.
    monkeypatch.setattr(processes, "mine", list)

    def make(end: Callable[[], list[str]]) -> Run:
        root = open_root(str(tmp_path / "root"))
        directory = root.run("r1")
        Path(directory.logs).mkdir(parents=True)
        asked = task(tmp_path, "true", launcher=["torchrun"])
        workers = WorkerGroup(protocol.Prepare(asked), root, directory, Container(end))
        run = Run(workers, Holdings(asked, root), Record(directory), EventLoop())
        now = time.monotonic()
        run.life, _ = lifecycle.ended(lifecycle.released(run.life, now), None, None, now)
        run.advance(now)
        return run

    return make


def finished(run: Run) -> protocol.Finished:
    """Let `run` end; return what it reports."""

    def is_over() -> bool:
        run.advance(time.monotonic())
        return run.outcome is not None

    wait_until(is_over, "the run is over")
    found = run._record.events[-1]
    assert isinstance(found, protocol.Finished)
    return found


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_end_that_fails_is_not_reported_as_clean(ended_run: Make) -> None:
    def fail() -> list[str]:
        raise ValueError("unexpected")

    assert finished(ended_run(fail)).leftovers == ["the container of run r1: its end is unknown"]


def test_a_node_that_starts_no_thread_ends_the_container_itself(
    ended_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert finished(ended_run(lambda: ["container r1"])).leftovers == ["container r1"]


def test_a_container_that_stays_after_a_refused_start_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = open_root(str(tmp_path / "root"))
    asked = task(tmp_path, "true", container=ContainerTask("torch:mine", []))
    monkeypatch.setattr(containers, "start_container", lambda task, root: Container(lambda: ["container c: no answer"]))
    monkeypatch.setattr(checks, "problems", lambda task, directory: [protocol.Reason("interface-missing", "no ib0")])
    with pytest.raises(RefusedError) as refused:
        prepare_run(protocol.Prepare(asked), root, Record(root.run("r1")), EventLoop())
    found = [(each.code, each.message) for each in refused.value.reasons]
    assert found == [("interface-missing", "no ib0"), ("leftovers-stay", "could not remove container c: no answer")]


@pytest.fixture
def ending(ended_run: Make) -> Iterator[Run]:
    """A run whose container ends for as long as the test takes; it is clean then, and nobody stopped it."""
    goes_on = threading.Event()
    run = ended_run(lambda: [] if goes_on.wait(60) else ["late"])
    yield run
    goes_on.set()
    assert finished(run).leftovers == []
    assert run.stopping is None


def test_no_rank_starts_while_the_container_ends(ending: Run) -> None:
    mine, other = socket.socketpair()
    entry = RankConnection(mine)
    ending._on_entry(entry, b'{"local_rank": 0}')
    entry.flush()
    assert other.recv(1000) == b'{"refused": "the run is being stopped"}\n'
    entry.close()
    other.close()


def test_a_signal_while_the_container_ends_stops_nothing(ending: Run) -> None:
    ending.stop(protocol.SIGNALLED, 0.0, time.monotonic())
    assert ending._workers.ended_from_outside == ""
    assert ending.outcome is None


def test_a_run_ends_once(ending: Run) -> None:
    thread = ending._container_end
    ending._begin_end("aborted", "again")
    assert ending._container_end is thread


def test_a_run_that_is_aborted_lets_its_agent_wait_while_its_container_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit for Prepare and Release does not end the agent meanwhile."""
    goes_on = threading.Event()
    root = open_root(str(tmp_path / "root"))
    directory = root.run("r1")
    Path(directory.logs).mkdir(parents=True)
    asked = task(tmp_path, "true")
    workers = WorkerGroup(
        protocol.Prepare(asked), root, directory, Container(lambda: [] if goes_on.wait(60) else ["late"])
    )
    with socket.socket() as listener:
        supervisor = Supervisor(root, directory, listener)
        supervisor._run = run = Run(workers, Holdings(asked, root), Record(directory), EventLoop())
        now = supervisor._deadline + 1.0
        supervisor._advance_run(now)
        assert supervisor._timeout(now) > 0.0
        goes_on.set()
        assert finished(run).leftovers == []
    assert [type(each) for each in run._record.events] == [protocol.Stopping, protocol.Finished]
