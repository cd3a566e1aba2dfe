"""Requests, events and results of `pylaunch bench`."""

from collections.abc import Callable, Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.features.bench.judgement.confirmation import PairVerdict
from pylaunch.features.bench.judgement.measurements import AllReduceTimed
from pylaunch.features.bench.judgement.pairs import Pair
from pylaunch.model.run import Event


class BenchStage(Enum):
    """A stage; the value is its name in flags and output."""

    BARRIER = "barrier"
    CORRECTNESS = "correctness"
    ALL_REDUCE = "all-reduce"
    PAIRS = "pairs"


OF_ALL_RUNS = (BenchStage.BARRIER, BenchStage.CORRECTNESS)
"""Stages that every run of ranks begins with."""

CHOSEN = (BenchStage.ALL_REDUCE, BenchStage.PAIRS)
"""Stages that a person chooses from."""


@dataclass(frozen=True)
class BenchRequest:
    """Request of a person."""

    stages: frozenset[BenchStage] = frozenset(CHOSEN)
    backend: str = "auto"
    python: str | None = None
    uses_infiniband: bool = True


@dataclass(frozen=True)
class StageEndedOnAll:
    """Stage that ended, with its cause if it is broken."""

    stage: BenchStage
    is_broken: bool
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


BenchEvent = StageEndedOnAll | BenchBegun | AllReduceTimed | Event
BenchEmit = Callable[[BenchEvent], None]


@dataclass(frozen=True)
class BenchResult:
    """Everything that was measured, and the verdict."""

    hosts: tuple[str, ...]
    backend: str
    ranks: int
    stages: tuple[StageEndedOnAll, ...] = ()
    runs: tuple[str, ...] = ()
    all_reduces: tuple[AllReduceTimed, ...] = ()
    pair_rates: Mapping[Pair, tuple[float, ...]] = field(default_factory=dict)
    """Indexes of two hosts → GB/s in each round."""

    verdict: PairVerdict | None = None
    dropped: int = 0
    """Lines of ranks that were not understood."""

    @property
    def is_broken(self) -> bool:
        """Return True if a stage did not succeed."""
        return any(each.is_broken for each in self.stages)
