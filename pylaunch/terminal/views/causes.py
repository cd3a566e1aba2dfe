"""Causes of a failure as lines: evidence, the question that would settle it, and other possible causes."""

from __future__ import annotations

from pylaunch.model.outcome import Outcome
from pylaunch.terminal import console

MOST_OTHERS = 3


def show_causes(outcome: Outcome, *, verbose: bool = False) -> None:
    """Print the evidence for the first cause, and other causes; with `verbose` the rejected ones, and missing facts."""
    if outcome.causes:
        top, *others = outcome.causes
        if top.reason not in outcome.reason:
            console.say(f"{top.confidence.value}: {top.reason}")
        if top.evidence:
            console.say(f"evidence ({top.confidence.value}: {top.identifier}):")
        console.quote(top.evidence)
        for other in others if verbose else others[:MOST_OTHERS]:
            console.say(f"also {other.confidence.value}: {other.reason}")
            console.quote(other.evidence if verbose else other.evidence[:1])
        if top.question:
            console.say(f"to be sure: {top.question}")
        if top.page:
            console.say(f"see: pylaunch help {top.page}")
    if verbose:
        for each in outcome.rejected:
            console.say(f"rejected: {each.reason} ({each.why})")
        for facts in outcome.hosts:
            for missing in facts.missing:
                console.say(f"not known: {facts.host}: {missing}")
