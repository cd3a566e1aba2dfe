"""One run of ranks for `pylaunch bench`: an ordinary start whose ranks print measurements."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path

import pylaunch.features.bench.ranks as program
from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.features.bench.events import (
    OF_ALL_RUNS,
    BenchBegun,
    BenchEmit,
    BenchRequest,
    BenchStage,
    StageEndedOnAll,
)
from pylaunch.features.bench.judgement.measurements import (
    AllReduceTimed,
    BarrierPassed,
    PairTimed,
    Readings,
    StageEnded,
    SumChecked,
)
from pylaunch.features.bench.judgement.pairs import Pair, PairRate, pair_rates
from pylaunch.features.bench.ranks.rounds import pairs_of
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.job import TREE, Framework, JobSpec, Sync
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.render import plan_start
from pylaunch.runs.events import LinesWritten, RunBegun, StartEvent
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError
from pylaunch.runs.start import StartOptions, start
from pylaunch.runs.sync.tree import read_tree
from pylaunch.store import runs
from pylaunch.transport.interrupts import InterruptSource

DIRECTORY = Path(program.__file__).parent
SHIPPED, NOT_SHIPPED = DIRECTORY.parent, ("/*.py",)
MODULE = ("-m", "ranks.bench_rank")
LIMIT_S = 540.0
"""It ends ranks that cannot end on their own."""

START_TIMEOUT = timedelta(seconds=60)
SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
SIZES_OF_NCCL = (*SIZES, 256 << 20, 1 << 30)
"""Below 512 MiB, a fabric with NVLink and InfiniBand does not reach its bandwidth."""

PAIR_SIZE, PAIR_SIZE_OF_NCCL = 8 << 20, 256 << 20


@dataclass
class TimeLimit:
    """Interrupts of the caller, and one after `seconds`."""

    seconds: float
    what: str
    """Name of the run in the reason of its interrupt."""

    source: InterruptSource
    is_over: bool = False

    @contextlib.contextmanager
    def interrupts(self, receiver: Callable[[str], object], last_s: float) -> Iterator[None]:
        """Deliver the interrupts to `receiver` during the block."""

        def end() -> None:
            self.is_over = True
            receiver(f"{self.what} did not end within {self.seconds:g} s")

        timer = threading.Timer(self.seconds, end)
        timer.daemon = True
        with self.source(receiver, last_s):
            timer.start()
            try:
                yield
            finally:
                timer.cancel()


@dataclass(frozen=True)
class RoundPlan:
    """Rounds of pairs of one run."""

    numbers: tuple[int, ...] = ()
    explicit: tuple[tuple[Pair, ...], ...] = ()

    def pairs(self, nodes: int) -> list[Iterable[Pair]]:
        """Return the pairs of each round among `nodes`."""
        return [*(pairs_of(number, nodes) for number in self.numbers), *self.explicit]


@dataclass
class BenchRun:
    """A run, and the lines of its ranks."""

    cluster: Cluster
    request: BenchRequest
    backend: str
    stages: tuple[BenchStage, ...]
    rounds: RoundPlan
    emit: BenchEmit
    plan: RunPlan | None = None
    readings: Readings = field(default_factory=lambda: Readings(0))
    ended: list[StageEndedOnAll] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)
    is_complete: bool = False
    """It ended on its own, with all stages: no output of its ranks is missing because of an early end."""

    def measure(self, interrupts: InterruptSource) -> None:
        """Run it and report its stages; the last one may be broken.

        Raises UsageError, ClusterNotReadyError, and InterruptedBeforeReleaseError when a person interrupts it.
        """
        tree = read_tree(SHIPPED, NOT_SHIPPED)
        manifest = tree.manifest
        sync = Sync(str(tree.directory), manifest.digest, len(manifest.files), manifest.size, NOT_SHIPPED)
        planned = plan_start(self.cluster, self._job(sync), runs.new_run_id(), lambda event: None)
        self.plan = planned.plan
        self.readings = Readings(planned.plan.world_size)
        limit = TimeLimit(LIMIT_S, "the measurement", interrupts)
        outcome = start(planned, StartOptions(tree=tree), self._take, limit.interrupts)
        if outcome.status is Status.STOPPED and not limit.is_over:
            raise _interrupted(outcome, planned.plan.run)
        if len(self.ended) < len(self.stages):
            self.end(self._broken(self.stages[len(self.ended)], outcome))
        else:
            self.is_complete = outcome.status is Status.DONE

    def _job(self, sync: Sync) -> JobSpec:
        is_nccl = self.backend == "nccl"
        plan = {
            "backend": self.backend,
            "stages": [each.value for each in self.stages if each not in OF_ALL_RUNS],
            "sizes": SIZES_OF_NCCL if is_nccl else SIZES,
            "rounds": self.rounds.numbers,
            "pairs": self.rounds.explicit,
            "pair_size": PAIR_SIZE_OF_NCCL if is_nccl else PAIR_SIZE,
        }
        return JobSpec(
            (*MODULE, json.dumps(plan)),
            Framework.DIRECT,
            TREE,
            sync=sync,
            python=self.request.python,
            ranks_per_node=None if is_nccl else 1,
            env={} if self.request.uses_infiniband else {"NCCL_IB_DISABLE": "1"},
            start_timeout=START_TIMEOUT,
        )

    @property
    def is_broken(self) -> bool:
        """Return True if a stage did not succeed."""
        return any(each.is_broken for each in self.ended)

    @property
    def has_all_pairs(self) -> bool:
        """Return True if the rounds of pairs are measured, so that they can be judged."""
        has_ended = any(each.stage == BenchStage.PAIRS.value for each in self.readings.of(StageEnded))
        return has_ended and (self.is_complete or len(self.pair_rates()) >= self.planned_pairs)

    @property
    def planned_pairs(self) -> int:
        """Return the number of pairs of all rounds."""
        return sum(len(tuple(pairs)) for pairs in self.rounds.pairs(len(self.cluster.hosts)))

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
                if isinstance(taken, AllReduceTimed):
                    self.emit(taken)
                elif taken is not None:
                    self._report_ended()

    def _report_ended(self) -> None:
        """Report the stages that all ranks have ended, in order."""
        while len(self.ended) < len(self.stages) and self._reported(stage := self.stages[len(self.ended)]):
            self.end(StageEndedOnAll(stage, False, self._proof(stage)))

    def end(self, stage: StageEndedOnAll) -> None:
        """Keep and report a stage that ended now."""
        now = time.monotonic()
        stage, self.since = replace(stage, seconds=now - self.since), now
        self.ended.append(stage)
        self.emit(stage)

    def _reported(self, stage: BenchStage) -> bool:
        """Return True if all ranks that must report `stage` did: rank 0 leaves the barrier once all have met there."""
        if stage is BenchStage.BARRIER:
            return any(each.rank == 0 for each in self.readings.of(BarrierPassed))
        if stage is BenchStage.CORRECTNESS:
            found = self.readings.of(SumChecked)
            is_all = len({each.rank for each in found}) >= self.readings.ranks
            return is_all and not any(each.wrong for each in found)
        if stage is BenchStage.ALL_REDUCE and any(each.wrong for each in self.readings.of(AllReduceTimed)):
            return False
        return any(each.stage == stage.value for each in self.readings.of(StageEnded))

    def _proof(self, stage: BenchStage) -> str:
        if stage is BenchStage.BARRIER:
            return f"{self.readings.ranks} ranks met at rank 0"
        if stage is BenchStage.CORRECTNESS:
            found = self.readings.of(SumChecked)
            return f"right sums on {self.readings.ranks} ranks, {found[0].framework}, {found[0].device}"
        return "no wrong value" if stage is BenchStage.ALL_REDUCE else "measured"

    def _broken(self, stage: BenchStage, outcome: Outcome) -> StageEndedOnAll:
        wrong = [each for each in self.readings.of(AllReduceTimed) if each.wrong]
        if stage is BenchStage.ALL_REDUCE and wrong:
            return StageEndedOnAll(stage, True, f"wrong values: {wrong[0].wrong} elements of {wrong[0].size} bytes")
        hints = () if self.plan is None else (f"output of all ranks: pylaunch logs {self.plan.run}",)
        if outcome.status is Status.DONE:
            return StageEndedOnAll(stage, True, "output of the ranks is missing", hints=hints)
        missing = self._missing(stage)
        evidence = (f"not reported by {fold(missing)}",) if missing else ()
        hosts = (outcome.named.host,) if outcome.named is not None else tuple(outcome.refusals)
        refusals = tuple(f"{host}: {line}" for host, lines in outcome.refusals.items() for line in lines)
        lines = () if outcome.first_failure is None else outcome.first_failure.last_lines
        return StageEndedOnAll(
            stage, True, outcome.reason, hosts, (*evidence, *refusals, *outcome.evidence, *lines),
            (*((outcome.hint,) if outcome.hint else ()), *hints),
        )  # fmt: skip

    def _missing(self, stage: BenchStage) -> list[str]:
        """Return hosts of ranks that did not report a right sum while others did."""
        there = {each.rank for each in self.readings.of(SumChecked)}
        if stage is not BenchStage.CORRECTNESS or self.plan is None or not there:
            return []
        return sorted({node.host.name for node in self.plan.nodes for each in node.ranks if each.rank not in there})


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
