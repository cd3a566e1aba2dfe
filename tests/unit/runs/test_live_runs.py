"""Watchers of all live runs."""

import threading

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs import live_runs
from pylaunch.runs.live_runs import LiveRuns, RunOnlooker
from pylaunch.store import runs

NOW = 1_780_000_000.0
PLAN = plan_run(Cluster((Host("n1", "10.0.0.1"),)), JobSpec(("train.py",), Framework.COMMAND, "/srv"), "7f3a9c01")


def test_no_more_runs_are_watched_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(live_runs, "MOST_RUNS", 2)
    monkeypatch.setattr(live_runs, "watch_run", lambda *_: over.wait(60) and None)
    live = LiveRuns[RunOnlooker](lambda plan, before: pytest.fail("no onlooker is needed"))
    for run in ("aaaa0000", "bbbb0000", "cccc0000"):
        runs.begin(replace(PLAN, run=run), "agent", NOW)
        live.refresh()
    assert len(live._watchers) == 2
    over.set()
    live.close()
    assert live.is_watching
