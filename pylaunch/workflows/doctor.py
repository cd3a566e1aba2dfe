"""Find the first broken layer between this machine and a running job: "my run does not start".

    hosts    one question to all of them: names, SSH port, host key, login, shell, Python
    checks   those of `pylaunch check` that decide: node root, clocks, network, Python environment
    trial    a job of one rank on each host: agent, barrier over the rendezvous, all-reduce with checked values

The walk ends at the first broken layer, because the later ones need it. Each layer asks the part that a start uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pylaunch.errors import InventoryError, PylaunchError
from pylaunch.launch.start.session import NodesRefusedError
from pylaunch.model.cluster import Cluster, Connection
from pylaunch.model.hostset import fold
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.preflight import suite
from pylaunch.preflight.check import Check
from pylaunch.preflight.start_layers import (
    CHECKED,
    CONNECTION,
    OF_SSH,
    LayerResult,
    LayerState,
    StartLayer,
    judged,
    unreachable_results,
)
from pylaunch.preflight.survey import Survey
from pylaunch.preflight.wanted import wanted_by
from pylaunch.runtime import communication_test as trial
from pylaunch.workflows.run_events import LinesWritten
from pylaunch.workflows.start import StartOptions, plan_start, start
from pylaunch.workflows.start_events import RunBegun, StartEvent

ANSWER_S = 20.0
"""For the answer of each host."""

START_TIMEOUT = timedelta(seconds=60)
TRIAL = ("-m", "pylaunch.runtime.communication_test")


@dataclass(frozen=True)
class Diagnosis:
    """Layers in order, and the run of the trial."""

    results: tuple[LayerResult, ...]
    hosts: tuple[str, ...] = ()
    trial_run: str = ""
    """Id of the trial; "" if none was started."""

    @property
    def broken(self) -> LayerResult | None:
        """The first broken layer; None if a run would start."""
        return next((each for each in self.results if each.state is LayerState.BROKEN), None)


def diagnose(
    load: Callable[[], Cluster], python: str | None = None, on_result: Callable[[LayerResult], None] = lambda _: None
) -> Diagnosis:
    """Walk the layers on the hosts that `load` reads from an inventory; call `on_result` with each result.

    `python` is the interpreter of the ranks; None is that of each host. The layers after a broken one are skipped.
    """
    walk = _LayerWalk(python)
    results: list[LayerResult] = []
    for result in walk.layers(load):
        results.append(result)
        on_result(result)
        if result.state is LayerState.BROKEN:
            break
    seen, last = {result.layer for result in results}, results[-1].layer.value
    for layer in StartLayer:
        if layer not in seen:
            rest = LayerResult(layer, LayerState.SKIPPED, f"needs the layer {last}")
            results.append(rest)
            on_result(rest)
    return Diagnosis(tuple(results), walk.hosts, walk.trial_run)


@dataclass
class _LayerWalk:
    python: str | None
    hosts: tuple[str, ...] = ()
    trial_run: str = ""
    lines: dict[str, set[str]] = field(default_factory=dict)
    """Stage of the trial → hosts whose rank reported it."""

    def layers(self, load: Callable[[], Cluster]) -> Iterator[LayerResult]:
        try:
            cluster = load()
        except InventoryError as error:
            yield _of_error(StartLayer.INVENTORY, error)
            return
        self.hosts = cluster.names
        source = cluster.sources[0] if cluster.sources else "this machine alone"
        yield _ok(StartLayer.INVENTORY, f"{_counted(cluster)} in {source}")
        plan = _plan(cluster, self.python)
        yield from self._connection(cluster, plan)
        yield from self._checks(cluster, plan)
        yield from self._trial(cluster)

    def _connection(self, cluster: Cluster, plan: RunPlan) -> Iterator[LayerResult]:
        """Yield the layers up to an interpreter, which one answer of each host proves."""
        survey = _survey(cluster, plan, ("reach.host", "reach.shell", "reach.python"))
        broken = unreachable_results(survey)
        findings = suite.judge(survey, _checks("reach.shell", "reach.python"))
        by_ssh = any(host.connection is Connection.SSH for host in cluster.hosts)
        for layer in CONNECTION:
            if not by_ssh and layer in OF_SSH:
                yield LayerResult(layer, LayerState.SKIPPED, "these hosts are this machine")
            elif broken and broken[0].layer is layer:
                yield broken[0]
            elif layer in CHECKED:
                yield judged(layer, findings, _PROOFS[layer])
            else:
                yield _ok(layer, _PROOFS[layer])

    def _checks(self, cluster: Cluster, plan: RunPlan) -> Iterator[LayerResult]:
        """Yield the layers that checks judge."""
        layers = (StartLayer.STORAGE, StartLayer.CLOCKS, StartLayer.NETWORK, StartLayer.ENVIRONMENT)
        ids = tuple(check for layer in layers for check in CHECKED[layer])
        findings = suite.judge(_survey(cluster, plan, ids), _checks(*ids))
        for layer in layers:
            if layer is StartLayer.NETWORK and len(cluster.hosts) == 1:
                yield LayerResult(layer, LayerState.SKIPPED, "one host has no other to reach")
            else:
                yield judged(layer, findings, _PROOFS[layer])

    def _trial(self, cluster: Cluster) -> Iterator[LayerResult]:
        """Yield the layers that a job of one rank on each host proves."""
        try:
            planned = plan_start(_without_devices(cluster), _job(cluster, self.python), self._take)
            outcome = start(planned, StartOptions(), self._take)
        except PylaunchError as error:
            yield _of_error(StartLayer.AGENT, error)
            return
        if outcome.status is Status.REFUSED:
            yield LayerResult(
                StartLayer.AGENT, LayerState.BROKEN, outcome.reason, tuple(outcome.refusals), outcome.evidence,
                (outcome.hint,) if outcome.hint else (),
            )  # fmt: skip
            return
        yield _ok(StartLayer.AGENT, "started on every host, prepared and released a job")
        yield from self._stages(outcome)

    def _stages(self, outcome: Outcome) -> Iterator[LayerResult]:
        count = max(2, len(self.hosts))
        if len(self.lines.get(trial.BARRIER, ())) < count:
            yield self._failed(StartLayer.BARRIER, outcome)
            return
        yield _ok(StartLayer.BARRIER, f"{count} ranks met at rank 0")
        imported = [stage for stage in self.lines if stage.startswith(f"{trial.IMPORT} ")]
        if outcome.status is Status.DONE and len(self.lines.get(trial.NO_FRAMEWORK, ())) >= count:
            for layer in (StartLayer.FRAMEWORK, StartLayer.ALL_REDUCE):
                yield LayerResult(layer, LayerState.SKIPPED, "neither torch nor jax is installed for the ranks")
            return
        if sum(len(self.lines[stage]) for stage in imported) < count:
            yield self._failed(StartLayer.FRAMEWORK, outcome)
            return
        yield _ok(StartLayer.FRAMEWORK, ", ".join(stage.removeprefix(f"{trial.IMPORT} ") for stage in imported))
        summed = [stage for stage in self.lines if stage.startswith(f"{trial.ALL_REDUCE} ")]
        if sum(len(self.lines[stage]) for stage in summed) < count or outcome.status is not Status.DONE:
            yield self._failed(StartLayer.ALL_REDUCE, outcome)
            return
        yield _ok(StartLayer.ALL_REDUCE, f"correct sum on {count} ranks")

    def _failed(self, layer: StartLayer, outcome: Outcome) -> LayerResult:
        """Return a broken layer with the verdict on the trial; skipped if the ranks ended well without its line."""
        if outcome.status is Status.DONE:
            return LayerResult(layer, LayerState.SKIPPED, "could not be measured: output of the ranks is missing")
        first = outcome.first_failure
        hosts = (outcome.named.host,) if outcome.named is not None else ()
        hint = outcome.hint or next((cause.hint for cause in outcome.causes[:1]), "")
        return LayerResult(
            layer,
            LayerState.BROKEN,
            outcome.reason,
            hosts,
            (*outcome.evidence, *(first.last_lines if first is not None else ())),
            (hint or f"pylaunch logs {self.trial_run}",),
        )

    def _take(self, event: StartEvent) -> None:
        if isinstance(event, RunBegun):
            self.trial_run = event.plan.run
        if isinstance(event, LinesWritten):
            for line in event.text.splitlines():
                head, _, stage = line.partition(f"{trial.STAGE} ")
                if not head and stage:
                    self.lines.setdefault(stage, set()).add(event.stream)


_PROOFS = {
    StartLayer.NAMES: "every host name resolves",
    StartLayer.PORT: "every SSH server accepts connections",
    StartLayer.HOST_KEY: "every host key is known",
    StartLayer.LOGIN: "every login is accepted",
    StartLayer.SHELL: "commands run, and nothing else is printed",
    StartLayer.PYTHON: "Python 3.8 or newer on every host",
    StartLayer.STORAGE: "writable, with room",
    StartLayer.CLOCKS: "agree",
    StartLayer.NETWORK: "every host reaches every other one",
    StartLayer.ENVIRONMENT: "interpreter and libraries are the same on every host",
}


def _ok(layer: StartLayer, text: str) -> LayerResult:
    return LayerResult(layer, LayerState.OK, text)


def _of_error(layer: StartLayer, error: PylaunchError) -> LayerResult:
    hosts = tuple(error.reasons) if isinstance(error, NodesRefusedError) else ()
    hints = (error.hint,) if error.hint else ()
    return LayerResult(layer, LayerState.BROKEN, error.message, hosts, tuple(error.evidence), hints)


def _job(cluster: Cluster, python: str | None) -> JobSpec:
    """Return the trial: one rank on each host, two on a single one."""
    return JobSpec(
        command=TRIAL,
        framework=Framework.DIRECT,
        workdir="/",
        ranks_per_node=1 if len(cluster.hosts) > 1 else 2,
        python=python,
        start_timeout=START_TIMEOUT,
    )


def _plan(cluster: Cluster, python: str | None) -> RunPlan:
    return plan_run(_without_devices(cluster), _job(cluster, python), "doctor")


def _without_devices(cluster: Cluster) -> Cluster:
    """Return `cluster` for a trial that takes no device from a run, and needs no free one."""
    return replace(cluster, hosts=tuple(replace(host, devices=()) for host in cluster.hosts))


def _checks(*ids: str) -> tuple[Check, ...]:
    return tuple(check for check in suite.CHECKS if check.id in ids)


def _survey(cluster: Cluster, plan: RunPlan, ids: tuple[str, ...]) -> Survey:
    return suite.take(cluster, wanted_by(plan), _checks(*ids), timeout_s=ANSWER_S)


def _counted(cluster: Cluster) -> str:
    return f"{len(cluster.hosts)} {'host' if len(cluster.hosts) == 1 else 'hosts'} ({fold(cluster.names)})"
