"""Requests, events and results of `pylaunch bench`."""

from collections.abc import Callable, Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import PylaunchError
from pylaunch.features.bench.judgement.baseline import Regression
from pylaunch.features.bench.judgement.bounds import Conditions
from pylaunch.features.bench.judgement.confirmation import PairVerdict
from pylaunch.features.bench.judgement.measurements import (
    CollectiveTimed,
    ComputeTimed,
    FileRead,
    LatencyTimed,
    Omitted,
)
from pylaunch.features.bench.judgement.pairs import Pair
from pylaunch.features.bench.judgement.peers import Straggler
from pylaunch.features.bench.judgement.sweep import Sweep
from pylaunch.runs.follow.run_events import Notice


class BenchStage(Enum):
    """A stage; the value is its name in flags and output."""

    CONNECT = "connect"
    BARRIER = "barrier"
    CORRECTNESS = "correctness"
    SWEEP = "sweep"
    LATENCY = "latency"
    PAIRS = "pairs"
    COMPUTE = "compute"
    READ = "read"


OF_ALL_RUNS = (BenchStage.BARRIER, BenchStage.CORRECTNESS)
"""Stages that every run of ranks begins with."""

USUAL = (BenchStage.CONNECT, *OF_ALL_RUNS, BenchStage.SWEEP, BenchStage.LATENCY, BenchStage.PAIRS, BenchStage.COMPUTE)


OTHER_SWEEP = "sweep over the other network"
"""Run of `--beside`."""

NO_IB = "no-ib"
"""Network without InfiniBand and RoCE."""


def again(stage: BenchStage) -> str:
    """Return the name of `stage` in the second run, which decides about slow nodes, links and devices."""
    return f"{stage.value} of the suspects again"


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

    stages: frozenset[BenchStage] = frozenset(USUAL)
    backend: str = "auto"
    sweep: Sweep = field(default_factory=Sweep)
    python: str | None = None
    ranks_per_node: int | None = None
    interface: str | None = None
    uses_infiniband: bool = True
    beside: str = ""
    """Network of a second sweep: NO_IB, or the name of an interface; "" for none."""

    data: str = ""
    """File or directory on every node that the stage `read` reads."""

    seed: int = 0
    """Choice of the rounds of pairs."""


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


BenchEvent = StageEndedOnAll | BenchBegun | CollectiveTimed | Omitted | Notice
BenchEmit = Callable[[BenchEvent], None]


@dataclass(frozen=True)
class Incomplete:
    """End of a measurement before everything that was requested was measured."""

    stage: str
    """In which it ended: name of a stage of the first run, that of `again`, or OTHER_SWEEP."""

    state: StageState
    """Of that stage."""

    reached: str
    """Part of that stage that was measured: "3 results, the last one all-reduce of 65536 bytes"."""

    not_measured: tuple[str, ...] = ()
    """Names of the same kind, in order: stages that were to follow."""


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

    beside: tuple[CollectiveTimed, ...] = ()
    """Results over the other network."""

    verdict: PairVerdict | None = None
    compute: Mapping[int, ComputeTimed] = field(default_factory=dict)
    """Speed of each device, by rank."""

    reads: Mapping[str, FileRead] = field(default_factory=dict)
    """Result of reading the data path, by host."""

    stragglers: Mapping[str, tuple[Straggler, ...]] = field(default_factory=dict)
    """Kind of work → ranks or hosts that were slow at first, confirmed or not."""

    regressions: tuple[Regression, ...] = ()
    baseline_made_at: str = ""
    """Time of the baseline that was compared with; "" without one."""

    dropped: int = 0
    """Lines of ranks that were not understood."""

    unjudged: tuple[str, ...] = ()
    """Reasons why kinds of work were not compared, one line each."""

    incomplete: Incomplete | None = None
    """None if everything that was requested was measured."""

    ended_by: PylaunchError | None = None
    """Interrupt that ended the measurement."""

    @property
    def is_broken(self) -> bool:
        """Return True if a stage did not succeed."""
        return any(each.state is StageState.BROKEN for each in self.stages)
