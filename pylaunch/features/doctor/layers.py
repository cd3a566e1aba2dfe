"""Layers between this machine and a running job, in the order in which each needs the one before. Pure.

`pylaunch doctor` walks them. The checks of `pylaunch check` judge the hosts; this module sorts what they find by layer.
"""

from collections.abc import Sequence
from enum import Enum

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.survey import Survey
from pylaunch.checks.unreachable import shared_failures
from pylaunch.model.diagnosis import host_hints
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.probe.ask import Unreachable


class StartLayer(Enum):
    """A layer; the value is its name for people."""

    INVENTORY = "inventory"
    NAMES = "host names"
    PORT = "SSH port"
    HOST_KEY = "host key"
    LOGIN = "login"
    SHELL = "shell"
    PYTHON = "Python of the agent"
    STORAGE = "node root"
    CLOCKS = "clocks"
    NETWORK = "network between hosts"
    ENVIRONMENT = "Python environment"
    AGENT = "agent"
    BARRIER = "barrier"
    FRAMEWORK = "framework import"
    ALL_REDUCE = "all-reduce"


class LayerState(Enum):
    """Result of a layer."""

    OK = "ok"
    BROKEN = "broken"
    SKIPPED = "skipped"
    """It was not checked, or could not be measured."""


@dataclass(frozen=True)
class LayerResult:
    """One layer on all hosts."""

    layer: StartLayer
    state: LayerState
    text: str
    hosts: tuple[str, ...] = ()
    """Hosts on which it is broken."""

    evidence: tuple[str, ...] = ()
    """Of a broken layer; warnings of one that works."""

    hints: tuple[str, ...] = ()
    """Commands that mend it."""


CONNECTION = (
    StartLayer.NAMES,
    StartLayer.PORT,
    StartLayer.HOST_KEY,
    StartLayer.LOGIN,
    StartLayer.SHELL,
    StartLayer.PYTHON,
)
"""Layers that the answer of a host proves together."""

OF_SSH = CONNECTION[:-1]
"""Layers that hosts with a local connection lack."""

CHECKED = {
    StartLayer.SHELL: ("reach.shell",),
    StartLayer.PYTHON: ("reach.python",),
    StartLayer.STORAGE: ("storage.writable", "storage.room"),
    StartLayer.CLOCKS: ("time.offset",),
    StartLayer.NETWORK: ("network.interface", "network.ports", "reach.names"),
    StartLayer.ENVIRONMENT: ("python_env.python", "python_env.libraries"),
}
"""StartLayer → ids of its checks."""


def layer_of(why: Unreachable) -> StartLayer:
    """Return the first broken layer of a host that did not answer, from the steps that were tried after the failure."""
    if why.reason.startswith(("no Python at", "the probe failed")):
        return StartLayer.PYTHON
    if not why.connection_failed:
        return StartLayer.SHELL
    steps = {line.partition(":")[0]: line for line in why.evidence}
    if "does not resolve" in steps.get("name", ""):
        return StartLayer.NAMES
    if "protocol" in steps or ("tcp" in steps and "accepts connections" not in steps["tcp"]):
        return StartLayer.PORT
    if ": shows " in steps.get("host key", ""):
        return StartLayer.HOST_KEY
    return StartLayer.LOGIN


def unreachable_results(survey: Survey) -> list[LayerResult]:
    """Return a broken layer for the hosts that do not answer and break earliest; [] if all hosts answer."""
    layers = {host: layer_of(why) for host, why in survey.unreachable.items()}
    if not layers:
        return []
    order = list(StartLayer)
    first = min(layers.values(), key=order.index)
    hosts = tuple(host for host, layer in layers.items() if layer is first)
    shared = shared_failures(survey.cluster, {host: survey.unreachable[host] for host in hosts})
    is_one = len(shared) == 1
    others = tuple(
        f"{fold(found)}: cannot be asked either, because of the {layer.value}"
        for layer in order
        if layer is not first and (found := [host for host, each in layers.items() if each is layer])
    )
    return [
        LayerResult(
            first,
            LayerState.BROKEN,
            shared[0].reason if is_one else f"{len(hosts)} of {len(survey.cluster.hosts)} hosts fail here",
            hosts,
            (*(shared[0].own_lines if is_one else (line for each in shared for line in each.lines)), *others),
            host_hints.of_hosts({host: survey.unreachable[host].hint for host in hosts}),
        )
    ]


def judged(layer: StartLayer, findings: Sequence[Finding], proof: str) -> LayerResult:
    """Return the result of `layer` from the findings of its checks; `proof` says what holds if none failed."""
    own = [finding for finding in findings if finding.check in CHECKED[layer]]
    failed = [finding for finding in own if finding.severity is Severity.FAIL]
    if failed:
        return LayerResult(
            layer,
            LayerState.BROKEN,
            failed[0].text,
            tuple(dict.fromkeys(host for finding in failed for host in finding.hosts)),
            (*failed[0].evidence, *(line for finding in failed[1:] for line in (finding.text, *finding.evidence))),
            tuple(dict.fromkeys(finding.fix for finding in failed if finding.fix)),
        )
    unread = [finding for finding in own if finding.severity is Severity.UNKNOWN]
    if unread:
        hosts = tuple(dict.fromkeys(host for finding in unread for host in finding.hosts))
        return LayerResult(layer, LayerState.SKIPPED, f"could not be measured: {unread[0].text}", hosts)
    warnings = [finding for finding in own if finding.severity is Severity.WARN]
    return LayerResult(
        layer,
        LayerState.OK,
        proof,
        evidence=tuple(f"warning: {fold(finding.hosts)}: {finding.text}" for finding in warnings),
        hints=tuple(dict.fromkeys(finding.fix for finding in warnings if finding.fix)),
    )
