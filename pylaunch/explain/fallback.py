"""Choose a slower network for the next attempt, after one that failed on InfiniBand or RoCE. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pylaunch.explain.logs.judgement import judge_logs
from pylaunch.explain.logs.scan import LogSearch
from pylaunch.explain.logs.signature import SignatureCatalogue
from pylaunch.explain.recognised_ends import scan_of_end
from pylaunch.model.job import JobSpec
from pylaunch.model.outcome import Outcome

DISABLE = "NCCL_IB_DISABLE"
FABRIC = frozenset(
    ("rdma-gid", "rdma-mtu", "rail-topology", "ib-hardware", "ib-path", "acs-iommu", "rdma-devices")
)  # fmt: skip
"""Classes of texts (`signatures/causes.toml`) whose cause is InfiniBand or RoCE, which TCP does not use."""


@dataclass(frozen=True)
class FallbackStep:
    """Variables of the next attempt."""

    env: Mapping[str, str]
    text: str
    """Change, reason and price in one line."""


def fallback_of(job: JobSpec, outcome: Outcome, signatures: Callable[[], SignatureCatalogue]) -> FallbackStep | None:
    """Return the step that `job` permits after `outcome`; None if it permits none or the texts have another cause.

    gloo is no further step: a script chooses its backend, and tensors on GPUs need NCCL.
    """
    if not job.fallback or job.env.get(DISABLE) == "1":
        return None
    catalogue = signatures()
    search = LogSearch.of(catalogue)
    first = judge_logs(catalogue, [scan_of_end(search, end) for end in outcome.ends if end.failed]).first
    if first is None or first.cause.id not in FABRIC:
        return None
    return FallbackStep(
        {DISABLE: "1"},
        f"{DISABLE}=1, because texts of failed ranks point to InfiniBand or RoCE: TCP now, as slow as the "
        "network interface; measure both: pylaunch bench --stage sweep --beside no-ib",
    )
