"""Rates of devices and data paths for `judgement.peers`, from the lines of two runs of `pylaunch bench`."""

from collections.abc import Mapping
from typing import Any

from pylaunch.base.dataclass import dataclass
from pylaunch.features.bench.judgement.measurements import ComputeTimed, FileRead, Readings
from pylaunch.features.bench.judgement.peers import Measured, PeerRate, Straggler, peer_verdict, repeats
from pylaunch.features.bench.run.bench_run import BenchRun
from pylaunch.features.bench.run.events import BenchStage
from pylaunch.model.plan import RunPlan

STAGES = {"matrix product": BenchStage.COMPUTE, "memory": BenchStage.COMPUTE, "file read": BenchStage.READ}
"""Kind of work → stage that measures it."""


@dataclass(frozen=True)
class PeerMeasurements:
    """Measurements of one run."""

    measured: Mapping[str, tuple[Measured, ...]]
    """Kind of work → measurements that are whole, in order."""

    unjudged: tuple[str, ...] = ()
    """Reasons why kinds of work are not compared, one line each: the fast ones report first."""

    def repeats(self) -> dict[BenchStage, int]:
        """Return the stages with suspects, and the number of further measurements that decide about them."""
        found: dict[BenchStage, int] = {}
        for kind, measured in self.measured.items():
            if measured and (count := repeats(measured[0])):
                found[STAGES[kind]] = max(count, found.get(STAGES[kind], 0))
        return found

    def verdict(self, later: "PeerMeasurements") -> dict[str, tuple[Straggler, ...]]:
        """Return the suspects of each kind of work, judged with the measurements of a `later` run."""
        again = later.measured
        found = {kind: peer_verdict(each[0], again.get(kind, ())) for kind, each in self.measured.items() if each}
        return {kind: stragglers for kind, stragglers in found.items() if stragglers}


def peers_of(run: BenchRun | None) -> PeerMeasurements:
    """Return what `run` measured of devices and data paths."""
    if run is None or run.plan is None:
        return PeerMeasurements({})
    plan, readings = run.plan, run.readings
    products, copies = {}, {}
    for rank, lines in by_rank(readings, ComputeTimed, plan).items():
        name = f"rank {rank} on {plan.node_of_rank(rank).host.name}"
        products[name] = [PeerRate(each.flops, each.flops_waited) for each in lines]
        copies[name] = [PeerRate(each.memory, each.memory_waited) for each in lines]
    reads = {
        plan.node_of_rank(rank).host.name: [PeerRate(each.size / each.seconds) for each in lines if each.seconds > 0]
        for rank, lines in by_rank(readings, FileRead, plan).items()
    }
    ranks, hosts = plan.world_size, len(plan.nodes)
    unjudged = (
        *([f"compute: no verdict: {len(products)} of {ranks} ranks reported"] if 0 < len(products) < ranks else ()),
        *([f"read: no verdict: {len(reads)} of {hosts} hosts reported"] if 0 < len(reads) < hosts else ()),
    )
    return PeerMeasurements(
        {"matrix product": _whole(products, ranks), "memory": _whole(copies, ranks), "file read": _whole(reads, hosts)},
        unjudged,
    )


def by_rank(readings: Readings, kind: type[Any], plan: RunPlan) -> dict[int, list[Any]]:
    """Return the lines of one kind of each rank of `plan`, in order."""
    found: dict[int, list[Any]] = {}
    for line in readings.of(kind):
        if line.rank < plan.world_size:
            found.setdefault(line.rank, []).append(line)
    return found


def _whole(rates: Mapping[str, list[PeerRate]], peers: int) -> tuple[Measured, ...]:
    """Return the measurements in which all `peers` are."""
    if len(rates) < peers:
        return ()
    return tuple(dict(zip(rates, each, strict=True)) for each in zip(*rates.values(), strict=False))
