"""Find the first broken layer between this machine and a running job: "my run does not start".

    hosts    one question to all of them: names, SSH port, host key, login, shell, Python
    checks   those of `pylaunch check` that decide: node root, clocks, network, Python environment
    trial    a job of one rank on each host: agent, barrier over the rendezvous, all-reduce with checked values

The walk ends at the first broken layer, because the later ones need it. Each layer asks the part that a start uses.
"""

from collections.abc import Callable, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.checks import suite
from pylaunch.checks.check import Check
from pylaunch.checks.hosts.clock import FAIL_S
from pylaunch.checks.survey import Survey
from pylaunch.checks.wanted import wanted_by
from pylaunch.errors import InventoryError
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
from pylaunch.features.doctor.trial import Trial, job, of_error
from pylaunch.model.cluster import Cluster, Connection
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.probe.ask import Asking
from pylaunch.runs.connect.interruptible import InterruptSource

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
