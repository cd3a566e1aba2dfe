"""`check --trial`: layer by layer from SSH to an all-reduce, up to the first broken one."""

from pylaunch.checks.suite import Result
from pylaunch.features import judge_settings
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.runs.connect.interruptible import signals
from pylaunch.runs.trial import Trial, TrialLayer, TrialState
from pylaunch.terminal import console, hints
from pylaunch.terminal.views import findings

FIRST_LAYERS = ("reach", "storage", "time", "network", "python_env")
"""Subjects of checks in the order in which a start needs them; the others follow."""

STYLES = {TrialState.OK: "green", TrialState.BROKEN: "red", TrialState.SKIPPED: "dim"}


def layers(found: Result) -> dict[str, list[Finding]]:
    """Return the findings by layer, up to the first layer in which a check failed."""
    subjects = [check.partition(".")[0] for check in (*found.checks, *(each.check for each in found.findings))]
    order = [each for each in FIRST_LAYERS if each in subjects]
    shown: dict[str, list[Finding]] = {}
    for subject in dict.fromkeys((*order, *subjects)):
        shown[subject] = [each for each in found.findings if each.check.partition(".")[0] == subject]
        if any(each.severity is Severity.FAIL for each in shown[subject]):
            break
    return shown


def show_layers(found: Result) -> None:
    """Print the layers of the checks."""
    shown = layers(found)
    for subject, own in shown.items():
        is_broken = any(each.severity is Severity.FAIL for each in own)
        state = TrialState.BROKEN if is_broken else TrialState.OK
        console.say(f"{state.value:<8} {subject}", style=STYLES[state])
        findings.show(own)
    if hidden := len(found.findings) - sum(map(len, shown.values())):
        console.say(f"{hidden} further {'finding' if hidden == 1 else 'findings'}: pylaunch check without --trial")


def tried(cluster: Cluster, python: str | None, *, is_shown: bool) -> tuple[str, list[TrialLayer]]:
    """Run the trial; return its run, and its layers up to a broken one. Raises InterruptedBeforeReleaseError."""
    trial, found = Trial(cluster.names), list[TrialLayer]()
    for layer in trial.layers(cluster, python, judge_settings, signals):
        found.append(layer)
        if is_shown:
            _show(layer)
    return trial.run, found


def _show(layer: TrialLayer) -> None:
    where = f"{fold(layer.hosts)}: " if any(host not in layer.text for host in layer.hosts) else ""
    console.say(f"{layer.state.value:<8} {layer.name}: {where}{layer.text}", style=STYLES[layer.state])
    console.quote(layer.evidence, indent=" " * 9 + "| ")
    if layer.hints:
        hints.say(*layer.hints)


def as_json(run: str, found: list[TrialLayer]) -> dict[str, object]:
    """Return the trial as data."""
    return {
        "run": run or None,
        "layers": [
            {
                "layer": each.name,
                "state": each.state.value,
                "text": each.text,
                "hosts": list(each.hosts),
                "evidence": list(each.evidence),
                "hints": [hints.completed(hint) for hint in each.hints],
            }
            for each in found
        ],
    }
