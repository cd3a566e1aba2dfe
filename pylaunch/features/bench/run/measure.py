"""Measure the communication of a cluster in stages, and name the node or link that is slow.

    connect      every node connects to every other one (the connection matrix of `pylaunch check`)
    one run      barrier, correctness, sweep, latency, pairs: `bench_run`
    second run   only for suspects: slow pairs with nodes that are known good

Ranks measure, `judgement` judges, this module acts on the verdict. A broken stage and an interrupt end the measurement;
what was measured before is the result.
"""

import random
import time
from collections.abc import Iterable, Mapping

from pylaunch.agent.probe.readers.devices import gpu as gpu_readers
from pylaunch.agent.probe.readers.devices import infiniband as infiniband_readers
from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.checks import suite
from pylaunch.checks.hosts.network import rank_wires
from pylaunch.checks.survey import Survey, shared_failures, wanted_by
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.bench.judgement.bounds import Conditions, HostSpeeds, Wire
from pylaunch.features.bench.judgement.confirmation import PairVerdict, confirmations, pair_verdict
from pylaunch.features.bench.judgement.measurements import (
    CollectiveTimed,
    LatencyTimed,
    Omitted,
)
from pylaunch.features.bench.judgement.pairs import Pair, Screening, round_numbers, screened
from pylaunch.features.bench.judgement.sweep import MOST_RANKS, TIME_LIMIT_S
from pylaunch.features.bench.run.bench_run import MARGIN_S, BenchRun, RoundPlan, job
from pylaunch.features.bench.run.events import (
    OF_ALL_RUNS,
    BenchEmit,
    BenchRequest,
    BenchResult,
    BenchStage,
    StageEndedOnAll,
    StageState,
)
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.model.job import JobSpec
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.probe.ask import Asking
from pylaunch.protocol.readings.devices import PortReading
from pylaunch.runs.connect.interruptible import InterruptSource
from pylaunch.runs.events import notice
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError, NodesRefusedError

CONNECT_CHECKS = ("reach.host", "network.interface", "network.ports", "network.path_mtu", "network.link")
DEVICE_CHECKS = ("infiniband.rate", "gpu.pcie", "gpu.nvlink")
"""Checks that ask for what NCCL uses; bench does not judge them."""

CONNECT_S = 20.0
"""For the answer of each host."""

BACKENDS = ("auto", "nccl", "gloo", "mpi")


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
    """Measure `cluster` and return the result, up to the first broken stage or an interrupt.

    Raises UsageError for a request that does not fit the cluster, before any host is contacted, and
    InterruptedBeforeReleaseError or KeyboardInterrupt for an interrupt before the first stage ended.
    """
    backend = chosen_backend(cluster, request)
    used = cluster if backend == "nccl" else cluster.without_devices()  # Only NCCL takes devices.
    measuring = _Measuring(used, request, backend, emit, interrupts)
    return measuring.result()


@dataclass
class _Measuring:
    cluster: Cluster
    request: BenchRequest
    backend: str
    emit: BenchEmit
    interrupts: InterruptSource
    stages: list[StageEndedOnAll] = field(default_factory=list)
    runs: list[BenchRun] = field(default_factory=list)
    speeds: Mapping[str, HostSpeeds] = field(default_factory=dict)
    first: BenchRun | None = None
    screening: Screening | None = None
    rounds_again: tuple[tuple[Pair, ...], ...] = ()
    """Rounds of pairs of the second run."""

    second: BenchRun | None = None
    ended_by: InterruptedBeforeReleaseError | None = None

    def result(self) -> BenchResult:
        request = self.request
        count = len(self.cluster.hosts)
        rounds = RoundPlan(round_numbers(count, random.randrange(10**6)) if count > 1 else ())
        wanted = tuple(each for each in BenchStage if each in request.stages and not self._unfit(each))
        if not wanted:
            stage = next(each for each in BenchStage if each in request.stages)
            raise UsageError(f"--stage {stage.value}: {self._unfit(stage)}", hint="name more hosts, or another stage")
        of_ranks = tuple(each for each in wanted if each is not BenchStage.CONNECT)
        spec = job(request, self.backend, of_ranks, rounds)
        plan = plan_run(self.cluster, spec, "bench")
        if plan.world_size < 2:
            raise UsageError(
                f"bench needs at least two ranks, and {plan.nodes[0].host.name} alone has one",
                hint="name more hosts, or --nproc-per-node 2",
            )
        if plan.world_size > MOST_RANKS:
            raise UsageError(
                f"bench measures at most {MOST_RANKS} ranks, and these would be {plan.world_size}",
                hint="--nproc-per-node, or --limit",
            )
        if len({len(node.ranks) for node in plan.nodes}) > 1:
            raise UsageError(
                "the hosts have different numbers of devices", hint="--nproc-per-node N, with the smallest of them"
            )
        self._skip_unfit()
        self._survey(plan)
        try:
            self._measure(spec, of_ranks, rounds)
        except InterruptedBeforeReleaseError as error:
            self.ended_by = error
        except KeyboardInterrupt as interrupt:  # Between two runs.
            self.ended_by = InterruptedBeforeReleaseError(str(interrupt) or "interrupted")
        if self.ended_by is not None and not any(each.state is StageState.OK for each in self.stages):
            raise self.ended_by
        self._screen()
        return replace(self._collected(plan), ended_by=self.ended_by)

    def _measure(self, spec: JobSpec, of_ranks: tuple[BenchStage, ...], rounds: RoundPlan) -> None:
        """Run all ranks, and again for suspects."""
        if self._is_broken or not of_ranks:
            return
        self.first = self._begun(spec, tuple(dict.fromkeys((*OF_ALL_RUNS, *of_ranks))), rounds)
        self._finish(self.first)
        self._screen()
        if self.screening is not None and self.rounds_again and not self._is_broken:
            self._measure_again(self.screening)

    def _unfit(self, stage: BenchStage) -> str:
        """Return the reason why this cluster cannot have `stage`; "" if it can."""
        if stage in (BenchStage.CONNECT, BenchStage.PAIRS) and len(self.cluster.hosts) < 2:
            return "one host has no network to others"
        return ""

    def _skip_unfit(self) -> None:
        for stage in BenchStage:
            if stage in self.request.stages and (reason := self._unfit(stage)):
                skipped = StageEndedOnAll(stage, StageState.SKIPPED, reason)
                self.stages.append(skipped)
                self.emit(skipped)

    @property
    def _is_broken(self) -> bool:
        return any(each.state is StageState.BROKEN for each in self.stages)

    def _survey(self, plan: RunPlan) -> None:
        """Connect every node to every other one, and read the speeds that hosts report."""
        if BenchStage.CONNECT not in self.request.stages or self._unfit(BenchStage.CONNECT):
            return
        checks = tuple(check for check in suite.CHECKS if check.id in CONNECT_CHECKS)
        begun = time.monotonic()
        devices = DEVICE_CHECKS if self.backend == "nccl" else ()
        asked = tuple(check for check in suite.CHECKS if check.id in (*CONNECT_CHECKS, *devices))
        survey = suite.take(self.cluster, wanted_by(plan), asked, how=Asking(CONNECT_S))
        self.speeds = host_speeds(survey, uses_infiniband=self.request.uses_infiniband)
        stage = replace(_connected(survey, suite.judge(survey, checks)), seconds=time.monotonic() - begun)
        self.stages.append(stage)
        self.emit(stage)

    def _begun(self, spec: JobSpec, stages: tuple[BenchStage, ...], rounds: RoundPlan) -> BenchRun:
        limit_s = TIME_LIMIT_S + MARGIN_S
        run = BenchRun(self.cluster, spec, stages, rounds, self.emit, self.backend, limit_s)
        self.runs.append(run)
        return run

    def _finish(self, run: BenchRun) -> None:
        """Measure `run` and add its stages. Raises InterruptedBeforeReleaseError and KeyboardInterrupt."""
        try:
            run.measure(self.interrupts)
        except (ClusterNotReadyError, UsageError) as error:
            if run is self.first and isinstance(error, UsageError):
                raise  # Nothing is measured yet.
            hosts = tuple(error.reasons) if isinstance(error, NodesRefusedError) else ()
            broken = StageEndedOnAll(
                run.stages[0], StageState.BROKEN, error.message, hosts, tuple(error.evidence),
                (error.hint,) if error.hint else (),
            )  # fmt: skip
            run.ended.append(broken)
            self.emit(broken)
        except (InterruptedBeforeReleaseError, KeyboardInterrupt):
            run.interrupt()
            raise
        finally:
            self.stages += run.ended

    def _screen(self) -> None:
        """Find the suspects and the rounds that decide about them, if all first rounds are measured."""
        if self.screening is None and self.first is not None and self.first.has_all_pairs:
            self.screening = screened(self.first.pair_rates(), len(self.cluster.hosts))
            self.rounds_again = confirmations(self.screening)

    def _measure_again(self, screening: Screening) -> None:
        """Measure suspects with other partners."""
        suspects = fold(sorted({self.cluster.names[node] for node in screening.suspects}))
        what = suspects or f"{len(screening.links)} pairs"
        self.emit(notice(f"slow in the rounds of pairs: {what}; measuring again with other partners"))
        rounds = RoundPlan(explicit=self.rounds_again)
        spec = job(self.request, self.backend, (BenchStage.PAIRS,), rounds)
        self.second = self._begun(spec, (*OF_ALL_RUNS, BenchStage.PAIRS), rounds)
        self._finish(self.second)

    def _verdict(self) -> PairVerdict | None:
        """Return the verdict on all nodes; None if no pair was measured.

        Rounds that were interrupted or failed give no verdict: a slow node and its partners look alike in them.
        """
        first, screening, second = self.first, self.screening, self.second
        if screening is None:
            rates = [] if first is None else first.pair_rates()
            if first is None or not rates:
                return None
            reached = f"only {len(rates)} of {first.planned_pairs} pairs were measured"
            return PairVerdict(abstained=f"{reached}, which do not distinguish a slow node from its partners")
        if screening.abstained or not self.rounds_again:
            return pair_verdict(screening, ())
        if second is None or not second.has_all_pairs:
            return PairVerdict(
                unclear=screening.suspects,
                abstained="the second measurement, which distinguishes a slow node from its partners, did not end",
            )
        return pair_verdict(screening, second.pair_rates())

    def _collected(self, plan: RunPlan) -> BenchResult:
        names = plan.cluster.names
        lines = [line for run in self.runs for line in run.readings.lines]
        by_pair: dict[Pair, tuple[float, ...]] = {}
        for run in self.runs:
            for each in run.pair_rates():
                by_pair[each.pair] = (*by_pair.get(each.pair, ()), each.rate)
        conditions = Conditions(self.backend, plan.world_size, len(plan.nodes[0].ranks), self.speeds)
        return BenchResult(
            names, conditions, tuple(self.stages),
            tuple(run.plan.run for run in self.runs if run.plan is not None),
            tuple(line for line in lines if isinstance(line, CollectiveTimed)),
            tuple(line for line in lines if isinstance(line, Omitted) and line.rank == 0),
            tuple({(line.of, line.rank): line for line in lines if isinstance(line, LatencyTimed)}.values()),
            by_pair, self._verdict(), dropped=sum(run.readings.dropped for run in self.runs),
        )  # fmt: skip


def _connected(survey: Survey, findings: Iterable[Finding]) -> StageEndedOnAll:
    """Return the stage `connect`: broken by an unreachable host and by a failed check."""
    bad = [each for each in findings if each.severity is Severity.FAIL]
    if survey.unreachable:
        lines = tuple(line for each in shared_failures(survey.cluster, survey.unreachable) for line in each.lines)
        text = f"{len(survey.unreachable)} of {len(survey.cluster.hosts)} hosts cannot be asked from here"
        silent = tuple(survey.unreachable)
        return StageEndedOnAll(BenchStage.CONNECT, StageState.BROKEN, text, silent, lines, ("pylaunch check",))
    if bad:
        hosts = tuple(sorted({host for each in bad for host in each.hosts}))
        return StageEndedOnAll(
            BenchStage.CONNECT, StageState.BROKEN, bad[0].text, hosts, tuple(each.text for each in bad[1:]),
            tuple(each.fix for each in bad if each.fix),
        )  # fmt: skip
    return StageEndedOnAll(BenchStage.CONNECT, StageState.OK, "every host reaches every other one")


def host_speeds(survey: Survey, *, uses_infiniband: bool) -> dict[str, HostSpeeds]:
    """Return host → speeds that it reports. Without `uses_infiniband`, ranks use the network interface."""
    wires = {host: (Wire(*wire),) for host, wire in rank_wires(survey).items()}
    ports = survey.measured(infiniband_readers.adapters) if uses_infiniband else {}
    cards = survey.measured(gpu_readers.management)
    links = survey.measured(gpu_readers.links)
    found = {}
    for host in survey.cluster.hosts:
        used = set(host.devices)
        smi = cards.get(host.name)
        pcie = tuple(
            (card["pcie_generation_max"], card["pcie_width"])
            for card in (smi["cards"] if smi is not None else ())
            if card["index"] in used and card["pcie_generation_max"] is not None and card["pcie_width"] is not None
        )
        nvlink = [each["rate"] for index, each in (links.get(host.name) or {}).items() if index in map(str, used)]
        rails = tuple(_rails(ports.get(host.name) or ()))
        speeds = HostSpeeds(rails or wires.get(host.name, ()), pcie, min(nvlink) if any(nvlink) else None)
        if speeds != HostSpeeds():
            found[host.name] = speeds
    return found


def _rails(ports: Iterable[PortReading]) -> Iterable[Wire]:
    for port in ports:
        if port["state"] == "ACTIVE" and port["rate_gbps"]:
            yield Wire(f"{port['adapter']} port {port['port']}", int(port["rate_gbps"] * 1000), 0, is_fabric=True)
