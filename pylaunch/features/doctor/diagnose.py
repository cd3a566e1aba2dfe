"""Find the first broken layer between this machine and a running job: "my run does not start".

    hosts    one question to all of them: names, SSH port, host key, login, shell, Python
    checks   those of `pylaunch check` that decide: node root, clocks, network, Python environment
    trial    a job of one rank on each host: agent, barrier over the rendezvous, all-reduce with checked values

The walk ends at the first broken layer, because the later ones need it. Each layer asks the part that a start uses.
Ranks of the trial run `pylaunch.runtime.communication_test` and print a line at the end of each stage. A layer holds if
every rank printed the line of its stage. All ranks met, too, if the rank that failed has printed it: its failure may
stop another rank before that prints the line.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta

from pylaunch.base.dataclass import dataclass, field
from pylaunch.checks import suite
from pylaunch.checks.check import Check
from pylaunch.checks.hosts.clock import FAIL_S
from pylaunch.checks.survey import Survey
from pylaunch.checks.wanted import wanted_by
from pylaunch.errors import InventoryError, PylaunchError
from pylaunch.features import judge_settings
from pylaunch.features.doctor.layers import (
    CHECKED,
    CONNECTION,
    OF_SSH,
    LayerResult,
    LayerState,
    StartLayer,
    judged,
    unreachable_results,
)
from pylaunch.model.cluster import Cluster, Connection
from pylaunch.model.hostset import fold
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.text.argv import quoted
from pylaunch.probe.ask import Asking
from pylaunch.runs.connect.interruptible import Interrupter, InterruptSource
from pylaunch.runs.follow.run_events import LinesWritten
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError, NodesRefusedError
from pylaunch.runs.start import StartOptions, plan_start, start
from pylaunch.runs.start_events import RunBegun, StartEvent
from pylaunch.runs.time_limit import TimeLimit
from pylaunch.runtime import communication_test

START_TIMEOUT = timedelta(seconds=60)
LIMIT_S = 300.0
"""For the whole job: longer than all limits of its stages together. It ends ranks that cannot end on their own."""

COMMAND = ("-m", "pylaunch.runtime.communication_test")


def job(cluster: Cluster, python: str | None) -> JobSpec:
    """Return the job: one rank on each host, two on a single one."""
    return JobSpec(
        command=COMMAND,
        framework=Framework.DIRECT,
        workdir="/",
        ranks_per_node=1 if len(cluster.hosts) > 1 else 2,
        python=python,
        start_timeout=START_TIMEOUT,
    )


@dataclass
class Trial:
    """The job, and the lines of its ranks."""

    hosts: tuple[str, ...]
    run: str = ""
    """Id of the run; "" before it has begun."""

    python: str = ""
    """Interpreter of the ranks on the first host."""

    stages: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Stage → host and stream of each rank that reported it."""

    def layers(
        self, cluster: Cluster, python: str | None, interrupts: InterruptSource | None = None
    ) -> Iterator[LayerResult]:
        """Run the job and yield the layers that it proves. Raises InterruptedBeforeReleaseError on an interrupt."""
        limit = TimeLimit(LIMIT_S, "the trial", Interrupter() if interrupts is None else interrupts)
        try:
            planned = plan_start(cluster.without_devices(), job(cluster, python), judge_settings, self.take)
            outcome = start(planned, StartOptions(), self.take, limit.interrupts)
        except InterruptedBeforeReleaseError:
            raise
        except PylaunchError as error:
            yield of_error(StartLayer.AGENT, error)
            return
        if outcome.status is Status.STOPPED and not limit.is_over:
            raise InterruptedBeforeReleaseError(f"{outcome.reason}: the trial of doctor is stopped")
        if outcome.status is Status.REFUSED:
            yield LayerResult(
                StartLayer.AGENT, LayerState.BROKEN, outcome.reason, tuple(outcome.refusals), outcome.evidence,
                (outcome.hint,) if outcome.hint else (),
            )  # fmt: skip
            return
        yield _ok(StartLayer.AGENT, "started on every host, prepared and released a job")
        yield from self.judged(outcome)

    def judged(self, outcome: Outcome) -> Iterator[LayerResult]:
        """Yield the layers that the stages of the job prove, up to the first that is broken."""
        count = max(2, len(self.hosts))
        if not self._met(count, outcome):
            yield self._failed(StartLayer.BARRIER, communication_test.BARRIER, outcome)
            return
        yield _ok(StartLayer.BARRIER, f"{count} ranks met at rank 0")
        if outcome.status is Status.DONE and len(self.stages.get(communication_test.NO_FRAMEWORK, ())) >= count:
            for layer in (StartLayer.FRAMEWORK, StartLayer.ALL_REDUCE):
                yield LayerResult(layer, LayerState.SKIPPED, "neither torch nor jax is installed for the ranks")
            return
        if len(self._reported(communication_test.IMPORT)) < count:
            yield self._failed(StartLayer.FRAMEWORK, communication_test.IMPORT, outcome)
            return
        yield _ok(StartLayer.FRAMEWORK, ", ".join(self._imported()))
        if len(self._reported(communication_test.ALL_REDUCE)) < count or outcome.status is not Status.DONE:
            yield self._failed(StartLayer.ALL_REDUCE, communication_test.ALL_REDUCE, outcome)
            return
        yield _ok(StartLayer.ALL_REDUCE, f"correct sum on {count} ranks")

    def _met(self, count: int, outcome: Outcome) -> bool:
        """Return True if all ranks met at rank 0, as each of them learns there."""
        met, failed = self._reported(communication_test.BARRIER), outcome.named
        return len(met) >= count or (failed is not None and (failed.host, f"{failed.rank}.out") in met)

    def _reported(self, stage: str) -> set[tuple[str, str]]:
        """Return the ranks that reported `stage`, with any framework."""
        return {rank for each, ranks in self.stages.items() if each.split(" ")[0] == stage for rank in ranks}

    def _imported(self) -> list[str]:
        """Return each framework that a rank imported, with its version."""
        prefix = f"{communication_test.IMPORT} "
        return [stage.removeprefix(prefix) for stage in self.stages if stage.startswith(prefix)]

    def _failed(self, layer: StartLayer, stage: str, outcome: Outcome) -> LayerResult:
        """Return a broken layer with the verdict on the job; skipped if the ranks ended well without its line."""
        if outcome.status is Status.DONE:
            return LayerResult(layer, LayerState.SKIPPED, "could not be measured: output of the ranks is missing")
        first = outcome.first_failure
        done = {host for host, _ in self._reported(stage)}
        late = [host for host in self.hosts if host not in done]
        progress = [f"reported by {fold(sorted(done))}, not by {fold(late)}"] if done and late else []
        hosts: tuple[str, ...] = (outcome.named.host,) if outcome.named is not None else ()
        if not hosts and layer is StartLayer.FRAMEWORK and done:
            hosts = tuple(late)  # No rank waits for another one while it imports.
        hint = outcome.hint or next((cause.hint for cause in outcome.causes[:1]), "")
        return LayerResult(
            layer,
            LayerState.BROKEN,
            outcome.reason,
            hosts,
            (*progress, *outcome.evidence, *(first.last_lines if first is not None else ())),
            tuple(each for each in (hint, *self._next_steps(layer, hosts)) if each),
        )

    def _next_steps(self, layer: StartLayer, hosts: tuple[str, ...]) -> tuple[str, ...]:
        output = f"output of all ranks: pylaunch logs {self.run}"
        if layer is not StartLayer.FRAMEWORK or not self.python:
            return (output,)
        where = fold(hosts) if hosts else "each host"
        names = {each.split(" ")[0] for each in self._imported()}
        framework = "jax" if names == {"jax"} else "torch"
        return (f"repeat it on {where}: {quoted((self.python, '-c', f'import {framework}'))}", output)

    def take(self, event: StartEvent) -> None:
        """Keep the id of the run, and the stages that its ranks report."""
        if isinstance(event, RunBegun):
            self.run = event.plan.run
            self.python = event.plan.job.python or event.plan.nodes[0].host.rank_python
        if isinstance(event, LinesWritten):
            for line in event.text.splitlines():
                head, _, stage = line.partition(f"{communication_test.STAGE} ")
                if not head and stage:
                    self.stages.setdefault(stage, set()).add((event.host, event.stream))


def of_error(layer: StartLayer, error: PylaunchError) -> LayerResult:
    """Return `layer` as broken by `error`."""
    hosts = tuple(error.reasons) if isinstance(error, NodesRefusedError) else ()
    hints = (error.hint,) if error.hint else ()
    return LayerResult(layer, LayerState.BROKEN, error.message, hosts, tuple(error.evidence), hints)


ANSWER_S = 20.0
"""For the answer of each host."""


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
    load: Callable[[], Cluster],
    python: str | None = None,
    on_result: Callable[[LayerResult], None] = lambda _: None,
    interrupts: InterruptSource | None = None,
) -> Diagnosis:
    """Walk the layers on the hosts that `load` reads from an inventory; call `on_result` with each up to a broken one.

    `python` is the interpreter of the ranks; None is that of each host. The layers after a broken one are skipped.
    Raises InterruptedBeforeReleaseError when an interrupt stops the trial.
    """
    walk = _LayerWalk(python, interrupts)
    results: list[LayerResult] = []
    for result in walk.layers(load):
        results.append(result)
        on_result(result)
        if result.state is LayerState.BROKEN:
            break
    seen, last = {result.layer for result in results}, results[-1].layer.value
    for layer in StartLayer:
        if layer not in seen:
            results.append(LayerResult(layer, LayerState.SKIPPED, f"needs the layer {last}"))
    return Diagnosis(tuple(results), walk.hosts, "" if walk.trial is None else walk.trial.run)


@dataclass
class _LayerWalk:
    python: str | None
    interrupts: InterruptSource | None = None
    hosts: tuple[str, ...] = ()
    trial: Trial | None = None

    def layers(self, load: Callable[[], Cluster]) -> Iterator[LayerResult]:
        try:
            cluster = load()
        except InventoryError as error:
            yield of_error(StartLayer.INVENTORY, error)
            return
        self.hosts = cluster.names
        yield _ok(StartLayer.INVENTORY, f"{_counted(cluster)} {_source(cluster)}")
        plan = _plan(cluster, self.python)
        yield from self._connection(cluster, plan)
        yield from self._checks(cluster, plan)
        self.trial = Trial(cluster.names)
        yield from self.trial.layers(cluster, self.python, self.interrupts)

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


_PROOFS = {
    StartLayer.NAMES: "every host name resolves",
    StartLayer.PORT: "every SSH server accepts connections",
    StartLayer.HOST_KEY: "every host key is known",
    StartLayer.LOGIN: "every login is accepted",
    StartLayer.SHELL: "commands run, and nothing else is printed",
    StartLayer.PYTHON: "Python 3.8 or newer on every host",
    StartLayer.STORAGE: "writable, with room",
    StartLayer.CLOCKS: f"within {FAIL_S:g} s of each other",
    StartLayer.NETWORK: "every host reaches every other one",
    StartLayer.ENVIRONMENT: "interpreter and libraries are the same on every host",
}


def _ok(layer: StartLayer, text: str) -> LayerResult:
    return LayerResult(layer, LayerState.OK, text)


def _plan(cluster: Cluster, python: str | None) -> RunPlan:
    return plan_run(cluster.without_devices(), job(cluster, python), "doctor")


def _checks(*ids: str) -> tuple[Check, ...]:
    return tuple(check for check in suite.CHECKS if check.id in ids)


def _survey(cluster: Cluster, plan: RunPlan, ids: tuple[str, ...]) -> Survey:
    return suite.take(cluster, wanted_by(plan), _checks(*ids), how=Asking(ANSWER_S))


def _counted(cluster: Cluster) -> str:
    return f"{len(cluster.hosts)} {'host' if len(cluster.hosts) == 1 else 'hosts'} ({fold(cluster.names)})"


def _source(cluster: Cluster) -> str:
    if not cluster.sources:
        return "without an inventory: this machine alone"
    source = cluster.sources[0]
    return "as given" if source.endswith(",") else f"in {source}"
