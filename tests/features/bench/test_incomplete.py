"""A measurement that fails keeps what was measured, and accuses nobody."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.bench import bench_run
from pylaunch.features.bench.events import CHOSEN, BenchRequest, BenchResult, BenchStage
from pylaunch.features.bench.measure import bench
from pylaunch.features.bench.ranks.rounds import pairs_of
from pylaunch.features.bench.view import conclusions
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.render import PlannedRun
from pylaunch.runs.events import Emit, LinesWritten, RunBegun
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError
from pylaunch.runs.start import StartOptions

NODES = 4
INTERRUPTED = Outcome(Status.STOPPED, "interrupted", 0.0, (), {})
DONE = Outcome(Status.DONE, "all ranks ended", 0.0, (), {})
FAILED = Outcome(Status.FAILED, "rank 2 on n3 exited with 1", 0.0, (), {})

Line = tuple[str, int, dict[str, object]]
"""Kind, rank, fields."""


def each_rank(kind: str, **fields: object) -> list[Line]:
    return [(kind, rank, fields) for rank in range(NODES)]


def met() -> list[Line]:
    return [*each_rank("barrier"), *each_rank("correctness", wrong=0, framework="torch 2", device="cpu")]


def end(stage: str) -> list[Line]:
    return [("end", 0, {"stage": stage})]


def all_reduce(size: int, wrong: int = 0) -> list[Line]:
    return [("all-reduce", 0, {"size": size, "seconds": [1e-3], "wrong": wrong})]


def rounds(count: int, slow: int | None = None) -> Callable[[RunPlan], list[Line]]:
    """Results of the first `count` rounds; a pair with the node `slow` takes twice as long."""

    def lines(plan: RunPlan) -> list[Line]:
        asked = json.loads(plan.job.command[-1])
        found = [pairs_of(number, NODES) for number in asked["rounds"]] + asked["pairs"]
        return [
            (
                "pair",
                rank,
                {"round": number, "peer": peer, "size": 1 << 20, "seconds": [2e-3 if slow in pair else 1e-3]},
            )
            for number, pairs in enumerate(found[:count])
            for pair in pairs
            for rank, peer in (pair, pair[::-1])
        ]

    return lines


Written = Sequence[list[Line] | Callable[[RunPlan], list[Line]]]


@dataclass
class Runs:
    """In place of `start`: the lines of each run, and its end."""

    each: list[tuple[Written, Outcome | BaseException]] = field(default_factory=list)
    plans: list[RunPlan] = field(default_factory=list)

    def start(self, planned: PlannedRun, options: StartOptions, emit: Emit, interrupts: object) -> Outcome:
        plan = planned.plan
        written, ended = self.each[len(self.plans)]
        self.plans.append(plan)
        emit(RunBegun(plan))
        for part in written:
            for kind, rank, fields in part if isinstance(part, list) else part(plan):
                text = "pylaunch bench: " + json.dumps({"kind": kind, "rank": rank, **fields})
                emit(LinesWritten(plan.nodes[rank].host.name, f"{rank}.out", text + "\n", 0.0))
        if isinstance(ended, BaseException):
            raise ended
        return ended


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = Runs()
    monkeypatch.setattr(bench_run, "start", found.start)
    yield found
    assert len(found.plans) == len(found.each)


def measured(stages: frozenset[BenchStage] = frozenset(CHOSEN)) -> BenchResult:
    cluster = Cluster(tuple(Host(f"n{number + 1}", f"10.0.0.{number + 1}") for number in range(NODES)))
    request = BenchRequest(stages=stages, backend="gloo")
    return bench(cluster, request, lambda event: None, lambda receiver, last_s: pytest.fail("nothing is started"))


def accused(result: BenchResult) -> list[str]:
    return [line for line in conclusions(result) if line.startswith("slow")]


def test_sizes_that_are_complete_are_kept(runs: Runs) -> None:
    runs.each = [((met(), all_reduce(4096), all_reduce(16384)), FAILED)]
    result = measured()
    assert [(each.stage, each.is_broken) for each in result.stages] == [
        (BenchStage.BARRIER, False),
        (BenchStage.CORRECTNESS, False),
        (BenchStage.ALL_REDUCE, True),
    ]
    assert [each.size for each in result.all_reduces] == [4096, 16384]


@pytest.mark.parametrize("count", [1, 2])
def test_rounds_that_are_incomplete_accuse_nobody(runs: Runs, count: int) -> None:
    runs.each = [((met(), end("all-reduce"), rounds(count, slow=2)), FAILED)]
    result = measured()
    assert result.verdict is not None
    assert result.verdict.abstained == (
        f"only {2 * count} of 6 pairs were measured, which do not distinguish a slow node from its partners"
    )
    assert accused(result) == []
    assert (result.verdict.nodes, result.verdict.links, result.verdict.unclear) == ((), (), ())
    assert result.is_broken


def test_suspects_that_were_not_measured_again_are_not_accused(runs: Runs) -> None:
    first = (met(), end("all-reduce"), rounds(3, slow=2), end("pairs"))
    runs.each = [(first, DONE), ((met(),), FAILED)]
    result = measured()
    assert result.verdict is not None
    assert result.verdict.unclear == (2,)
    assert result.verdict.abstained.startswith("the second measurement")
    assert accused(result) == []


def test_a_second_run_that_cannot_begin_keeps_the_first(runs: Runs) -> None:
    error = UsageError("the record cannot be written: No space left on device")
    runs.each = [((met(), rounds(3, slow=2), end("pairs")), DONE), ((), error)]
    result = measured(stages=frozenset({BenchStage.PAIRS}))
    assert result.is_broken
    assert result.stages[-1].text == error.message
    assert len(result.pair_rates) == 6


def test_an_interrupt_ends_the_measurement_with_an_error(runs: Runs) -> None:
    runs.each = [((met(), all_reduce(4096)), INTERRUPTED)]
    with pytest.raises(InterruptedBeforeReleaseError, match="interrupted: the run of bench is stopped"):
        measured()


def test_wrong_values_break_the_all_reduce_and_the_rest_is_measured(runs: Runs) -> None:
    lines = (met(), all_reduce(4096, wrong=7), end("all-reduce"), rounds(3), end("pairs"))
    runs.each = [(lines, DONE)]
    result = measured()
    assert result.is_broken
    assert len(result.pair_rates) == 6


def test_wrong_values_beside_a_slow_host_accuse_nobody(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "NODES", 64)
    lines = (met(), all_reduce(4096, wrong=7), end("all-reduce"), rounds(6, slow=2), end("pairs"))
    runs.each = [(lines, DONE)]
    result = measured()
    assert result.is_broken
    assert result.verdict is not None
    assert result.verdict.unclear == (2,)
    assert result.verdict.abstained.startswith("the second measurement")
    assert accused(result) == []
