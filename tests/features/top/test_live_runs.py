"""The list of runs that are followed, and their ends; the nodes are those of the test."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.top import live_runs
from pylaunch.features.top.live_runs import FollowedRuns
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs.connect.interruptible import InterruptSource
from pylaunch.runs.existing.watch import Onlooker
from pylaunch.runs.status import RunStatus
from pylaunch.store import runs
from pylaunch.store.paths import run_paths
from tests.features.top.samples import live_run
from tests.waiting import wait_until

DONE = Outcome(Status.DONE, "all ranks exited with code 0", 1000.0, (), {})


class Nodes:
    """Takes the place of `watch_run`: answers as the test puts into `answers`, an error or an event, then an end."""

    def __init__(self) -> None:
        self.answers: SimpleQueue[ClusterNotReadyError | Event | None] = SimpleQueue()
        self.watched: list[str] = []

    def watch(
        self, record: RunRecord, onlooker_of: Callable[[RunPlan], Onlooker], interrupts: InterruptSource
    ) -> RunRecord | None:
        """Answer until the run is over."""
        self.watched.append(record.plan.run)
        onlooker = onlooker_of(record.plan)
        while (answer := self.answers.get(timeout=60)) is not None:
            if isinstance(answer, ClusterNotReadyError):
                raise answer
            onlooker.show(answer)
        return record


def _as_recorded(records: Sequence[RunRecord]) -> list[RunStatus]:
    return [RunStatus((), runs.read(record.plan.run).outcome) for record in records]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes()
    monkeypatch.setattr(live_runs, "watch_run", made.watch)
    monkeypatch.setattr(live_runs, "statuses", _as_recorded)
    for name in ("LIST_S", "AGAIN_S"):
        monkeypatch.setattr(live_runs, name, 0.01)
    return made


def recorded(run: str, *, inventory: str = "cluster.ini", outcome: Outcome | None = None) -> RunPlan:
    """Record a run here."""
    plan = replace(live_run(run).record.plan, sources=(inventory,))
    runs.begin(plan, "agent", 900.0)
    if outcome is not None:
        runs.Recorder(run, lambda _: None).finish(outcome)
    return plan


def test_a_run_is_followed_over_an_outage_of_its_nodes_to_its_end(nodes: Nodes) -> None:
    recorded("11111111", outcome=DONE)
    recorded("22222222")
    with FollowedRuns(None) as live:
        wait_until(lambda: nodes.watched, "the live run is followed")
        nodes.answers.put(Event(1.0, EventKind.ATTACHED, "gpu01"))
        wait_until(lambda: live.by_id["22222222"].state() == ("running", False), "its report")
        nodes.answers.put(ClusterNotReadyError("no node can be reached", evidence=["gpu01: no route to host"]))
        wait_until(lambda: live.by_id["22222222"].state() == ("unreachable", True), "the outage")
        assert live.by_id["22222222"].trouble == "no node can be reached; gpu01: no route to host"
        hang = Event(2.0, EventKind.HANG, text="hang: rank 0 waits")
        runs.Recorder("22222222", lambda _: None).append(hang)
        wait_until(lambda: live.by_id["22222222"].record.last_hang == hang, "the finding in its record")
        runs.Recorder("22222222", lambda _: None).finish(DONE)
        nodes.answers.put(None)
        wait_until(lambda: live.by_id["22222222"].state() == ("done", False), "its end")
    assert set(nodes.watched) == {"22222222"}, "a run that was over is not followed"


def test_with_an_inventory_only_its_runs_are_followed_and_a_damaged_record_is_named(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded("11111111", inventory="other.ini")
    ours = recorded("22222222")
    recorded("33333333")
    run_paths("33333333").plan.write_text("{")
    monkeypatch.setattr(FollowedRuns, "_discover", lambda *_: None)
    with FollowedRuns(ours.cluster) as live:
        wait_until(lambda: nodes.watched and live.notice, "the runs are listed")
        runs.Recorder("22222222", lambda _: None).finish(DONE)
        nodes.answers.put(None)
    assert set(nodes.watched) == {"22222222"}
    assert live.notice.startswith("the record of run 33333333 cannot be read")
