"""Requests, events and results of `pylaunch bench`."""

from collections.abc import Callable, Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import PylaunchError
from pylaunch.features.bench.judgement.bounds import Conditions
from pylaunch.features.bench.judgement.confirmation import PairVerdict
from pylaunch.features.bench.judgement.measurements import (
    CollectiveTimed,
    LatencyTimed,
    Omitted,
)
from pylaunch.features.bench.judgement.pairs import Pair
from pylaunch.features.bench.judgement.sweep import Sweep
from pylaunch.model.run import Event


class BenchStage(Enum):
    """A stage; the value is its name in flags and output."""

    CONNECT = "connect"
    BARRIER = "barrier"
    CORRECTNESS = "correctness"
    SWEEP = "sweep"
    LATENCY = "latency"
    PAIRS = "pairs"


OF_ALL_RUNS = (BenchStage.BARRIER, BenchStage.CORRECTNESS)
"""Stages that every run of ranks begins with."""


class StageState(Enum):
    """Result of a stage."""

    OK = "ok"
    BROKEN = "broken"
    INTERRUPTED = "interrupted"
    """Neither ended nor failed."""

    SKIPPED = "skipped"


@dataclass(frozen=True)
class BenchRequest:
    """Request of a person."""

    stages: frozenset[BenchStage] = frozenset(BenchStage)
    backend: str = "auto"
    sweep: Sweep = field(default_factory=Sweep)
    python: str | None = None
    ranks_per_node: int | None = None
    interface: str | None = None
    uses_infiniband: bool = True


@dataclass(frozen=True)
class StageEndedOnAll:
    """Stage that ended, with its cause if it is broken."""

    stage: BenchStage
    state: StageState
    text: str
    hosts: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    seconds: float = 0.0
    """Since the stage before it; for the first one of a run, with the start of the ranks."""


@dataclass(frozen=True)
class BenchBegun:
    """Ranks were started."""

    run: str
    backend: str
    ranks: int
    hosts: tuple[str, ...]


BenchEvent = StageEndedOnAll | BenchBegun | CollectiveTimed | Omitted | Event
BenchEmit = Callable[[BenchEvent], None]


@dataclass(frozen=True)
class BenchResult:
    """Everything that was measured, and the verdicts."""

    hosts: tuple[str, ...]
    conditions: Conditions
    stages: tuple[StageEndedOnAll, ...] = ()
    runs: tuple[str, ...] = ()
    collectives: tuple[CollectiveTimed, ...] = ()
    omitted: tuple[Omitted, ...] = ()
    latencies: tuple[LatencyTimed, ...] = ()
    pair_rates: Mapping[Pair, tuple[float, ...]] = field(default_factory=dict)
    """Indexes of two hosts → GB/s in each round."""

    verdict: PairVerdict | None = None
    dropped: int = 0
    """Lines of ranks that were not understood."""

    ended_by: PylaunchError | None = None
    """Interrupt that ended the measurement."""

    @property
    def is_broken(self) -> bool:
        """Return True if a stage did not succeed."""
        return any(each.state is StageState.BROKEN for each in self.stages)
