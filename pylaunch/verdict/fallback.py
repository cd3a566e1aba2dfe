"""Choose a slower network for the next attempt, after one that failed on InfiniBand, RoCE or in NCCL. Pure.

InfiniBand  ─► TCP    NCCL_IB_DISABLE=1: NCCL uses the network interface
TCP         ─► gloo   PYLAUNCH_BACKEND=gloo: for scripts that leave the backend to `pylaunch.runtime`
"""

from collections.abc import Callable, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.job import JobSpec
from pylaunch.model.outcome import Outcome
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.judgement import judge_texts
from pylaunch.verdict.logs.scan import LogSearch
from pylaunch.verdict.logs.signature import SignatureCatalogue
from pylaunch.verdict.logs.uncaught import EXCEPTION
from pylaunch.verdict.recognised_ends import scan_of_end

DISABLE = "NCCL_IB_DISABLE"
BACKEND = "PYLAUNCH_BACKEND"
"""As in `runtime/fallback.py`."""

FABRIC = frozenset(
    ("rdma-gid", "rdma-mtu", "rail-topology", "ib-hardware", "ib-path", "acs-iommu", "rdma-devices")
)  # fmt: skip
"""Classes of texts (`signatures/causes.toml`) whose cause is InfiniBand or RoCE, which TCP does not use."""

NCCL = FABRIC | {"ofi-provider", "no-transport", "nccl-unexplained"}
"""Classes whose cause is in NCCL or its plugins, which gloo does not use."""

_OF_PROGRAM = ("nccl-invalidusage", "nccl-invalidargument")
"""Signatures of calls that NCCL rejected: another network does not mend them."""


@dataclass(frozen=True)
class FallbackStep:
    """Variables of the next attempt."""

    env: Mapping[str, str]
    text: str
    """Change, reason and price in one line."""


TCP = FallbackStep(
    {DISABLE: "1"},
    f"{DISABLE}=1, because texts of failed ranks point to InfiniBand or RoCE: TCP now, as slow as the "
    "network interface; measure both: pylaunch bench --stage all-reduce, without and with --no-ib",
)
GLOO = FallbackStep(
    {BACKEND: "gloo"},
    f"{BACKEND}=gloo, because NCCL failed on every failed rank, also without InfiniBand: scripts that call "
    "pylaunch.runtime.init() or backend() use gloo now, which copies tensors of GPUs through the memory of the host "
    "and lacks some collectives for them; other scripts use NCCL again; measure it: "
    "pylaunch bench --stage all-reduce --backend gloo",
)


def fallback_of(job: JobSpec, outcome: Outcome, signatures: Callable[[], SignatureCatalogue]) -> FallbackStep | None:
    """Return the step that `job` permits after `outcome`; None if it permits none or the texts have another cause.

    The step to gloo needs a text of NCCL from each failed rank: a rank that failed without one may be the cause of the
    failures of NCCL on the others.
    """
    failed = [end for end in outcome.ends if end.failed]
    if not job.fallback or not failed or BACKEND in job.env:
        return None
    classes = _TextClasses(signatures())
    if job.env.get(DISABLE) != "1":
        return TCP if classes.of(failed) in FABRIC else None
    return GLOO if all(classes.of([end]) in NCCL for end in failed) else None


class _TextClasses:
    """Classes of the texts of ranks."""

    def __init__(self, catalogue: SignatureCatalogue) -> None:
        self._catalogue = catalogue
        self._search = LogSearch.of(catalogue)

    def of(self, ends: list[RankEnd]) -> str:
        """Return the class of the first cause that the texts of `ends` show; "" for none, or one by its form alone."""
        facts = LogFacts([scan_of_end(self._search, end) for end in ends])
        first = judge_texts(self._catalogue, facts).first
        return "" if first is None or first.signature in (EXCEPTION, *_OF_PROGRAM) else first.cause.id
