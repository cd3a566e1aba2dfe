"""Layers of `pylaunch doctor`, as lines and as JSON."""

from __future__ import annotations

from pylaunch.cli import console
from pylaunch.cli.views import hints
from pylaunch.model.hostset import fold
from pylaunch.preflight.start_layers import LayerResult, LayerState
from pylaunch.workflows.doctor import Diagnosis

_WIDTH = 22
_STYLES = {LayerState.OK: "green", LayerState.BROKEN: "red", LayerState.SKIPPED: "dim"}


def show(result: LayerResult) -> None:
    """Print one layer; a broken one with its evidence."""
    where = f"{fold(result.hosts)}: " if result.hosts else ""
    console.say(
        f"{result.state.value:<8} {result.layer.value:<{_WIDTH}} {where}{result.text}", style=_STYLES[result.state]
    )
    if result.state is LayerState.BROKEN:
        console.quote(result.evidence, indent=" " * 9 + "| ")


def conclude(found: Diagnosis) -> None:
    """Print the conclusion, with the commands that mend the broken layer."""
    broken = found.broken
    if broken is None:
        unproven = [each.layer.value for each in found.results if each.state is LayerState.SKIPPED]
        rest = f"; not checked: {', '.join(unproven)}" if unproven else ""
        console.data(f"no layer is broken{rest}")
        return
    where = f" on {fold(broken.hosts)}" if broken.hosts else ""
    console.data(f"the first broken layer is {broken.layer.value}{where}: {broken.text}")
    if broken.hints:
        hints.say(*broken.hints)


def as_json(found: Diagnosis) -> dict[str, object]:
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
