"""`pylaunch metrics`: numbers of runs, and the text that Prometheus reads."""

import re
import sys
import threading
import time
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.features.metrics import live_runs
from pylaunch.features.metrics.command import command
from pylaunch.features.metrics.exposition import RunCollector, served
from pylaunch.features.metrics.live_runs import LiveRuns, RunOnlooker
from pylaunch.features.metrics.samples import LiveSamples, Sample, class_of_end, ends_of_no_attempt, sample_of
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.cause import FailureCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.usage_report import StepMark, Usage
from pylaunch.runs.events import UsageReported
from pylaunch.store import runs
from pylaunch.terminal.views.board import Board
from tests.documents import ROOT

NOW = 1_780_000_000.0
HOSTS = (Host("n1", "10.0.0.1", devices=(0, 1)), Host('n\x1b2"', "10.0.0.2", devices=(0, 1)))
PLAN = plan_run(Cluster(HOSTS), JobSpec(("train.py",), Framework.COMMAND, "/srv"), "7f3a9c01")
LOAD = Usage(0.5, 4, 8, 100.0, 50.0, 0.9, 20, 80, [StepMark(0, 30, NOW - 1), StepMark(1, 28, NOW - 2)])
FAILED = Outcome(Status.FAILED, "", NOW, (), {}, causes=(FailureCause("node-lost", "", Confidence.MEDIUM),))


def board() -> Board:
    """Rank 3 has ended, and contact with the second node is lost."""
    made = Board(PLAN)
    for rank in range(4):
        made.add(Event(NOW - 60, EventKind.RANK_STARTED, HOSTS[rank // 2].name, rank))
    made.add(Event(NOW - 5, EventKind.RANK_ENDED, HOSTS[1].name, 3))
    made.add(Event(NOW - 4, EventKind.CONTACT_LOST, HOSTS[1].name, None, "reason"))
    made.add(UsageReported("n1", replace(LOAD, steps=[StepMark(0, 10, NOW - 11), StepMark(1, 8, NOW - 12)])))
    made.add(UsageReported("n1", LOAD))
    return made


class Seen(LiveSamples):
    """Runs without nodes to ask."""

    def samples(self) -> list[Sample]:
        return [sample_of(board(), {"n1": 1.0}, NOW)]


@pytest.fixture
def live() -> LiveSamples:
    made = Seen(1.0)
    made.ends = {("failed", "node-lost"): 2, ("done", ""): 1}
    return made


def exported(live: LiveSamples) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name and labels (in the order of their names), as the parser of prometheus-client reads them."""
    registry = CollectorRegistry()
    registry.register(RunCollector(live))
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for each in family.samples:
            found.setdefault(each.name, {})[tuple(each.labels[name] for name in sorted(each.labels))] = each.value
    return found


def test_a_run_is_numbers_that_prometheus_reads(live: LiveSamples) -> None:
    found = exported(live)
    ranks = {state: value for (run, state), value in found["pylaunch_run_ranks"].items()}
    assert ranks == {"running": 2, "ended": 1, "unknown": 1, "waiting": 0}
    of_run = {name.removeprefix("pylaunch_run_"): value for name, values in found.items() for value in values.values()}
    assert (of_run["step_slowest"], of_run["step_furthest"], of_run["steps_per_second"]) == (28, 30, 2)
    assert (of_run["restarts"], of_run["started_timestamp_seconds"]) == (0, NOW - 60)
    odd = r"n\x1b2" + '"'
    assert found["pylaunch_node_up"] == {("n1", "7f3a9c01"): 1, (odd, "7f3a9c01"): 0}
    (age,) = found["pylaunch_node_last_answer_age_seconds"].values()
    assert abs(time.monotonic() - 1.0 - age) < 60
    assert found["pylaunch_attempts_ended_total"] == {("node-lost", "failed"): 2, ("", "done"): 1}


def test_the_guide_lists_each_metric_and_its_alerts_name_no_other(live: LiveSamples) -> None:
    guide = (ROOT / "docs/guides/metrics.md").read_text()
    assert {*re.findall(r"pylaunch_\w+", guide)} == exported(live).keys()


def test_an_end_has_the_kind_of_its_first_cause_from_a_bounded_set() -> None:
    assert class_of_end(FAILED) == ("failed", "node-lost")
    assert class_of_end(replace(FAILED, causes=())) == ("failed", "unknown")
    assert class_of_end(replace(FAILED, is_hang=True)) == ("failed", "hang")
    foreign = replace(FAILED, causes=(replace(FAILED.causes[0], kind='x"} 1'),))
    assert class_of_end(foreign) == ("failed", "unknown")
    assert class_of_end(replace(FAILED, status=Status.STOPPED)) == ("stopped", "")
    assert {class_of_end(FAILED), ("failed", "hang"), ("failed", "unknown"), ("stopped", "")} < {*ends_of_no_attempt()}


def test_only_ends_after_the_begin_count_and_each_once() -> None:
    def record(run: str, ended_at: float) -> None:
        runs.begin(replace(PLAN, run=run), "agent", NOW)
        runs.Recorder(run, lambda text: None).finish(replace(FAILED, ended_at=ended_at))

    live = LiveSamples(1.0)
    record("aaaa0000", live._runs._since - 1)
    record("bbbb0000", live._runs._since + 1)
    for _ in range(2):
        live.refresh()
    assert [(key, count) for key, count in live.ends.items() if count] == [(("failed", "node-lost"), 1)]
    runs.prune(keep=0)
    live.refresh()
    assert (sum(live.ends.values()), live.samples()) == (1, [])


def test_it_is_served_on_the_address_and_ends(live: LiveSamples) -> None:
    with served(live, "127.0.0.1", 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert b"pylaunch_run_ranks{" in answer.read()
        with pytest.raises(OSError, match="in use"), served(live, "127.0.0.1", port):
            pass
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "prometheus_client"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "pylaunch.features.metrics.exposition")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)


@pytest.mark.usefixtures("without_package")
def test_without_the_package_the_command_that_installs_it_is_named() -> None:
    with pytest.raises(UsageError, match="needs the package prometheus-client") as error:
        command.callback(listen="127.0.0.1:0", every=1.0)  # type: ignore[misc]
    assert "-m pip install 'prometheus-client>=" in str(error.value.hint)


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
