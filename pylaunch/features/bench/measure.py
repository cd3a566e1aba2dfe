"""Measure the communication of a cluster, and name the node or link that is slow.

    one run      barrier, correctness, all-reduce, pairs: `bench_run`
    second run   only for suspects: slow pairs with nodes that are known good

Ranks measure, `judgement` judges, this module acts on the verdict. A broken stage ends the measurement; what was
measured before is the result.
"""

import random

from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.bench.bench_run import BenchRun, RoundPlan
from pylaunch.features.bench.events import (
    CHOSEN,
    OF_ALL_RUNS,
    BenchEmit,
    BenchRequest,
    BenchResult,
    BenchStage,
    StageEndedOnAll,
)
from pylaunch.features.bench.judgement.confirmation import PairVerdict, confirmations, pair_verdict
from pylaunch.features.bench.judgement.measurements import AllReduceTimed
from pylaunch.features.bench.judgement.pairs import Pair, Screening, round_numbers, screened
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.runs.events import notice
from pylaunch.transport.interrupts import InterruptSource

BACKENDS = ("auto", "nccl", "gloo")


def chosen_backend(cluster: Cluster, request: BenchRequest) -> str:
    """Return the backend of `request` on `cluster`. Raises UsageError for one that cannot work there."""
    without = [host.name for host in cluster.hosts if not host.devices]
    if request.backend == "auto":
        return "gloo" if without else "nccl"
    if request.backend == "nccl" and without:
        raise UsageError(
            f"--backend nccl: the inventory has no devices for {fold(without)}",
            hint="--backend gloo, or gpus=N in the inventory",
        )
    return request.backend


def bench(cluster: Cluster, request: BenchRequest, emit: BenchEmit, interrupts: InterruptSource) -> BenchResult:
    """Measure `cluster` and return the result, up to the first broken stage.

    Raises UsageError for a request that does not fit the cluster, ClusterNotReadyError for nodes that cannot start
    ranks, and InterruptedBeforeReleaseError or KeyboardInterrupt for an interrupt.
    """
    backend = chosen_backend(cluster, request)
    used = cluster if backend == "nccl" else cluster.without_devices()  # Only NCCL takes devices.
    count = len(used.hosts)
    if count < 2:
        hint = "name two or more: -H gpu01,gpu02, or an inventory with -i, and --limit that leaves two of it"
        raise UsageError(f"bench measures between hosts, and {fold(used.names)} is one", hint=hint)
    if len({len(host.devices) for host in used.hosts}) > 1:
        raise UsageError("the hosts have different numbers of devices", hint="--limit to hosts with the same number")
    stages = (*OF_ALL_RUNS, *(each for each in CHOSEN if each in request.stages))
    first = BenchRun(used, request, backend, stages, RoundPlan(round_numbers(count, random.randrange(10**6))), emit)
    first.measure(interrupts)
    if not first.has_all_pairs:
        return _result(used, backend, [first], _incomplete(first))
    screening = screened(first.pair_rates(), count)
    again = confirmations(screening)
    if screening.abstained or not again:
        return _result(used, backend, [first], pair_verdict(screening, ()))
    if first.is_broken:
        return _result(used, backend, [first], _unconfirmed(screening, "was omitted, because a stage is broken"))
    emit(notice(f"slow in the rounds of pairs: {_suspects(used, screening)}; measuring again with other partners"))
    second = BenchRun(used, request, backend, (*OF_ALL_RUNS, BenchStage.PAIRS), RoundPlan(explicit=again), emit)
    try:
        second.measure(interrupts)
    except (ClusterNotReadyError, UsageError) as error:  # The first run is a result all the same.
        hints = (error.hint,) if error.hint else ()
        second.end(StageEndedOnAll(BenchStage.BARRIER, True, error.message, (), tuple(error.evidence), hints))
    if second.has_all_pairs:
        return _result(used, backend, [first, second], pair_verdict(screening, second.pair_rates()))
    return _result(used, backend, [first, second], _unconfirmed(screening, "did not end"))


def _unconfirmed(screening: Screening, why: str) -> PairVerdict:
    """Return the verdict of a first measurement with suspects, to which there is no second one."""
    reason = f"the second measurement, which distinguishes a slow node from its partners, {why}"
    return PairVerdict(unclear=screening.suspects, abstained=reason)


def _incomplete(run: BenchRun) -> PairVerdict | None:
    """Return the verdict of rounds that are not complete: a slow node and its partners look alike in them."""
    rates = run.pair_rates()
    reached = f"only {len(rates)} of {run.planned_pairs} pairs were measured"
    reason = f"{reached}, which do not distinguish a slow node from its partners"
    return PairVerdict(abstained=reason) if rates else None


def _suspects(cluster: Cluster, screening: Screening) -> str:
    names = fold(sorted(cluster.names[node] for node in screening.suspects))
    return names or f"{len(screening.links)} pairs"


def _result(cluster: Cluster, backend: str, runs: list[BenchRun], verdict: PairVerdict | None) -> BenchResult:
    by_pair: dict[Pair, tuple[float, ...]] = {}
    for run in runs:
        for each in run.pair_rates():
            by_pair[each.pair] = (*by_pair.get(each.pair, ()), each.rate)
    return BenchResult(
        cluster.names, backend, runs[0].readings.ranks,
        tuple(stage for run in runs for stage in run.ended),
        tuple(run.plan.run for run in runs if run.plan is not None),
        tuple(runs[0].readings.of(AllReduceTimed)),
        by_pair, verdict, sum(run.readings.dropped for run in runs),
    )  # fmt: skip
