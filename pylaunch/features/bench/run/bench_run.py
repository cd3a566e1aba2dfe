"""One run of ranks for `pylaunch bench`: an ordinary start whose ranks print measurements."""

import json
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pylaunch.features.bench.ranks as program
from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.features import judge_settings
from pylaunch.features.bench.judgement.measurements import (
    BarrierPassed,
    CollectiveTimed,
    Omitted,
    PairTimed,
    Readings,
    StageEnded,
    SumChecked,
)
from pylaunch.features.bench.judgement.pairs import Pair, PairRate, pair_rates
from pylaunch.features.bench.ranks.rounds import pairs_of
from pylaunch.features.bench.run.events import (
    OF_ALL_RUNS,
    BenchBegun,
    BenchEmit,
    BenchRequest,
    BenchStage,
    StageEndedOnAll,
    StageState,
)
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.job import TREE, Framework, JobSpec, Sync
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.runs.connect.interruptible import InterruptSource, TimeLimit
from pylaunch.runs.events import LinesWritten, RunBegun, StartEvent
from pylaunch.runs.planned import plan_start
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError
from pylaunch.runs.start import StartOptions, start
from pylaunch.runs.sync.tree import read_tree

DIRECTORY = Path(program.__file__).parent
SHIPPED, NOT_SHIPPED = DIRECTORY.parent, ("/*.py",)
MODULE = ("-m", "ranks.bench_rank")
MARGIN_S = 240.0
"""For imports, connections and latency, beside the sweep. It ends ranks that cannot end on their own."""

START_TIMEOUT = timedelta(seconds=60)
PAIR_SIZE = {"nccl": 256 << 20}
USUAL_PAIR_SIZE = 8 << 20


@dataclass(frozen=True)
class RoundPlan:
    """Rounds of pairs of one run."""

    numbers: tuple[int, ...] = ()
    explicit: tuple[tuple[Pair, ...], ...] = ()

    def pairs(self, nodes: int) -> list[Iterable[Pair]]:
        """Return the pairs of each round among `nodes`."""
        return [*(pairs_of(number, nodes) for number in self.numbers), *self.explicit]


def job(request: BenchRequest, backend: str, stages: tuple[BenchStage, ...], rounds: RoundPlan) -> JobSpec:
    """Return the job of one run."""
    tree = read_tree(SHIPPED, NOT_SHIPPED)
    sweep = request.sweep
    of_ranks = [each.value for each in stages if each is not BenchStage.CONNECT and each not in OF_ALL_RUNS]
    plan = {
        "backend": backend, "stages": of_ranks, "operations": [each.value for each in sweep.operations],
        "sizes": sweep.sizes(), "iterations": sweep.iterations, "rounds": rounds.numbers, "pairs": rounds.explicit,
        "pair_size": PAIR_SIZE.get(backend, USUAL_PAIR_SIZE),
    }  # fmt: skip
    manifest = tree.manifest
    return JobSpec(
        (*MODULE, json.dumps(plan)),
        Framework.DIRECT,
        TREE,
        sync=Sync(str(tree.directory), manifest.digest, len(manifest.files), manifest.size, NOT_SHIPPED),
        python=request.python,
        ranks_per_node=1 if request.ranks_per_node is None and backend != "nccl" else request.ranks_per_node,
        interface=request.interface,
        env={} if request.uses_infiniband else {"NCCL_IB_DISABLE": "1"},
        start_timeout=START_TIMEOUT,
    )


@dataclass
class BenchRun:
    """A run, and the lines of its ranks."""

    cluster: Cluster
    job: JobSpec
    stages: tuple[BenchStage, ...]
    rounds: RoundPlan
    emit: BenchEmit
    backend: str
    limit_s: float
    plan: RunPlan | None = None
    readings: Readings = field(default_factory=lambda: Readings(0))
    ended: list[StageEndedOnAll] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)
    is_complete: bool = False
    """It ended on its own, with all stages: no output of its ranks is missing because of an early end."""

    def measure(self, interrupts: InterruptSource) -> bool:
        """Run it and report its stages; return False if one is broken.

        Raises UsageError, and InterruptedBeforeReleaseError when a person interrupts it.
        """
        tree = read_tree(SHIPPED, NOT_SHIPPED)
        planned = plan_start(self.cluster, self.job, judge_settings, lambda event: None)
        self.plan = planned.plan
        self.readings = Readings(planned.plan.world_size)
        limit = TimeLimit(self.limit_s, "the measurement", interrupts)
        outcome = start(planned, StartOptions(tree=tree), self._take, limit.interrupts)
        if outcome.status is Status.STOPPED and not limit.is_over:
            raise _interrupted(outcome, planned.plan.run)
        if len(self.ended) == len(self.stages):
            self.is_complete = outcome.status is Status.DONE
            return True
        self._end(self._broken(self.stages[len(self.ended)], outcome))
        return False

    def interrupt(self) -> None:
        """Report the stage that an interrupt ended, if one has not ended yet."""
        if len(self.ended) < len(self.stages):
            self._end(StageEndedOnAll(self.stages[len(self.ended)], StageState.INTERRUPTED, "not complete"))

    @property
    def has_all_pairs(self) -> bool:
        """Return True if the rounds of pairs are measured, so that they can be judged."""
        has_ended = any(each.stage == BenchStage.PAIRS.value for each in self.readings.of(StageEnded))
        return has_ended and (self.is_complete or len(self.pair_rates()) >= self.planned_pairs)

    @property
    def planned_pairs(self) -> int:
        """Return the number of pairs of all rounds."""
        nodes = 0 if self.plan is None else len(self.plan.nodes)
        return sum(len(tuple(pairs)) for pairs in self.rounds.pairs(nodes)) if nodes > 1 else 0

    def pair_rates(self) -> list[PairRate]:
        """Return the rates of the pairs that were planned and that both ends reported."""
        if self.plan is None:
            return []
        nodes = self.plan.nodes
        return pair_rates(self.readings.of(PairTimed), self.rounds.pairs(len(nodes)), len(nodes[0].ranks))

    def _take(self, event: StartEvent) -> None:
        if isinstance(event, RunBegun):
            plan = event.plan
            self.emit(BenchBegun(plan.run, self.backend, plan.world_size, plan.cluster.names))
        elif isinstance(event, Event) and event.kind is EventKind.NOTICE:
            self.emit(event)
        elif isinstance(event, LinesWritten):
            for line in event.text.splitlines():
                taken = self.readings.take(_rank_of(event.stream), line)
                if isinstance(taken, CollectiveTimed) or (isinstance(taken, Omitted) and taken.rank == 0):
                    self.emit(taken)
                if taken is not None and not isinstance(taken, CollectiveTimed):
                    self._report_ended()

    def _report_ended(self) -> None:
        """Report the stages that all ranks have ended, in order."""
        while len(self.ended) < len(self.stages) and self._reported(stage := self.stages[len(self.ended)]):
            self._end(StageEndedOnAll(stage, StageState.OK, self._proof(stage)))

    def _end(self, stage: StageEndedOnAll) -> None:
        now = time.monotonic()
        stage, self.since = replace(stage, seconds=now - self.since), now
        self.ended.append(stage)
        self.emit(stage)

    def _reported(self, stage: BenchStage) -> bool:
        """Return True if all ranks that must report `stage` did: rank 0 leaves the barrier once all have met there."""
        world = 0 if self.plan is None else self.plan.world_size
        if stage is BenchStage.BARRIER:
            return any(each.rank == 0 for each in self.readings.of(BarrierPassed))
        if stage is BenchStage.CORRECTNESS:
            found = self.readings.of(SumChecked)
            return len({each.rank for each in found}) >= world and not any(each.wrong for each in found)
        if stage is BenchStage.SWEEP and any(each.wrong for each in self.readings.of(CollectiveTimed)):
            return False
        return any(each.stage == stage.value for each in self.readings.of(StageEnded))

    def _proof(self, stage: BenchStage) -> str:
        world = 0 if self.plan is None else self.plan.world_size
        if stage is BenchStage.BARRIER:
            return f"{world} ranks met at rank 0"
        if stage is BenchStage.CORRECTNESS:
            found = self.readings.of(SumChecked)
            return f"right sums on {world} ranks, {found[0].framework}, {found[0].device}"
        if stage is BenchStage.SWEEP:
            return f"{len(self.readings.of(CollectiveTimed))} results, no wrong value"
        return "measured"

    def _broken(self, stage: BenchStage, outcome: Outcome) -> StageEndedOnAll:
        wrong = [each for each in self.readings.of(CollectiveTimed) if each.wrong]
        if stage is BenchStage.SWEEP and wrong:
            text = f"wrong values: {wrong[0].wrong} elements of {wrong[0].operation.value}, {wrong[0].size} bytes"
            return StageEndedOnAll(stage, StageState.BROKEN, text)
        if outcome.status is Status.DONE:
            return StageEndedOnAll(stage, StageState.BROKEN, "output of the ranks is missing", hints=self._hints())
        missing = self._missing(stage)
        evidence = (f"not reported by {fold(missing)}",) if missing else ()
        hosts = (outcome.named.host,) if outcome.named is not None else tuple(outcome.refusals)
        refusals = tuple(f"{host}: {line}" for host, lines in outcome.refusals.items() for line in lines)
        lines = () if outcome.first_failure is None else outcome.first_failure.last_lines
        return StageEndedOnAll(
            stage, StageState.BROKEN, outcome.reason, hosts, (*evidence, *refusals, *outcome.evidence, *lines),
            (*((outcome.hint,) if outcome.hint else ()), *self._hints()),
        )  # fmt: skip

    def _missing(self, stage: BenchStage) -> list[str]:
        """Return hosts of ranks that did not report a right sum while others did."""
        there = {each.rank for each in self.readings.of(SumChecked)}
        if stage is not BenchStage.CORRECTNESS or self.plan is None or not there:
            return []
        return sorted({node.host.name for node in self.plan.nodes for each in node.ranks if each.rank not in there})

    def _hints(self) -> tuple[str, ...]:
        return () if self.plan is None else (f"output of all ranks: pylaunch logs {self.plan.run}",)


def _interrupted(outcome: Outcome, run: str) -> InterruptedBeforeReleaseError:
    """Return the error of a run that a person stopped. It claims the end of the run only where that is proven."""
    unproven = (*outcome.leftovers, *(host for host in outcome.unproven if host not in outcome.leftovers))
    if not unproven:
        return InterruptedBeforeReleaseError(f"{outcome.reason}: the run of bench is stopped")
    evidence = [f"{host}: left behind: {'; '.join(left)}" for host, left in outcome.leftovers.items()]
    return InterruptedBeforeReleaseError(
        f"{outcome.reason}: {fold(unproven)} not known to be clean", evidence=evidence, hint=f"pylaunch stop {run}"
    )


def _rank_of(stream: str) -> int | None:
    """Return the rank that wrote `stream` ("3.out"); None for others."""
    number, _, kind = stream.partition(".")
    return int(number) if kind == "out" and number.isascii() and number.isdecimal() else None
