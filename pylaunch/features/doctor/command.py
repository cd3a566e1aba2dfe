"""`pylaunch doctor`: the first broken layer between this machine and a running job."""

from pathlib import Path

import click

from pylaunch.errors import ExitCode
from pylaunch.features.doctor.diagnose import Diagnosis, diagnose
from pylaunch.features.doctor.layers import LayerResult, LayerState, StartLayer
from pylaunch.inventory import load_cluster
from pylaunch.model.hostset import fold
from pylaunch.runs.connect.interruptible import signals
from pylaunch.terminal import console, document, hints, options

EXAMPLES = """\b
Examples:
  pylaunch doctor -i cluster.ini
  pylaunch doctor -i cluster.ini --limit gpu03,gpu07
  pylaunch doctor -H gpu01,gpu02 --python /opt/conda/bin/python
"""


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]")
@options.as_json
def command(inventory: Path | None, limit: str | None, python: str | None, as_json: bool) -> int:
    """Find out why a run does not start: layer by layer from SSH to an all-reduce, up to the first broken one.

    Prints the cause and the command that mends it. At the end, a job with one rank on each host meets at a barrier and
    sums numbers with gloo (or JAX). It uses the CPU and no device. Exit code 3 when a layer is broken.
    """
    found = diagnose(lambda: load_cluster(inventory, limit=limit), python, show, signals)
    if as_json:
        document.show(_as_data(found))
    else:
        conclude(found)
    if found.broken is None:
        return ExitCode.DONE
    return ExitCode.USAGE if found.broken.layer is StartLayer.INVENTORY else ExitCode.CLUSTER_NOT_READY


_WIDTH = 22
_STYLES = {LayerState.OK: "green", LayerState.BROKEN: "red", LayerState.SKIPPED: "dim"}


def show(result: LayerResult) -> None:
    """Print one layer, with its evidence."""
    console.say(f"{result.state.value:<8} {result.layer.value:<{_WIDTH}} {_where(result, '{}: ')}{result.text}",
                style=_STYLES[result.state])  # fmt: skip
    if result.state is not LayerState.SKIPPED:
        console.quote(result.evidence, indent=" " * 9 + "| ")


def conclude(found: Diagnosis) -> None:
    """Print the conclusion, with the commands that mend the broken layer."""
    broken = found.broken
    if broken is None:
        console.data(f"no layer is broken{_unproven(found)}")
        if warned := [hint for each in found.results for hint in each.hints]:
            hints.say(*dict.fromkeys(warned))
        return
    rest = found.results[found.results.index(broken) + 1 :]
    if rest:
        names = ", ".join(each.layer.value for each in rest)
        console.say(f"not checked, because each needs the one before: {names}", style=_STYLES[LayerState.SKIPPED])
    console.data(f"the first broken layer is {broken.layer.value}{_where(broken, ' on {}')}: {broken.text}")
    if broken.hints:
        hints.say(*broken.hints)


def _where(result: LayerResult, form: str) -> str:
    """Return the hosts in `form`; "" where the text of the result has them."""
    is_named = all(host in result.text for host in result.hosts)
    return "" if is_named else form.format(fold(result.hosts))


def _unproven(found: Diagnosis) -> str:
    """Return the layers that are not proven, by reason."""
    reasons: dict[str, list[str]] = {}
    for each in found.results:
        if each.state is LayerState.SKIPPED:
            reasons.setdefault(each.text, []).append(each.layer.value)
    listed = "; ".join(f"{', '.join(layers)} ({reason})" for reason, layers in reasons.items())
    return f"; not checked: {listed}" if listed else ""


def _as_data(found: Diagnosis) -> dict[str, object]:
    """Return the layers as data."""
    broken = found.broken
    return {
        "hosts": list(found.hosts),
        "broken": None if broken is None else broken.layer.value,
        "trial": found.trial_run or None,
        "layers": [
            {
                "layer": each.layer.value,
                "state": each.state.value,
                "text": each.text,
                "hosts": list(each.hosts),
                "evidence": list(each.evidence),
                "hints": [hints.completed(hint) for hint in each.hints],
            }
            for each in found.results
        ],
    }
