"""How a run ended, on stderr: the failed rank with its last lines, causes, what is left, and the next command."""

from collections.abc import Collection

from pylaunch.checks.check import FIX
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event
from pylaunch.model.text.argv import pylaunch
from pylaunch.model.text.quantity import counted, duration
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.terminal import console, hints
from pylaunch.verdict.rank_end import described, sounds_like_a_victim

LAST_LINES = 20
MOST_WARNINGS = 4
"""Ranks that hide a failure which are listed."""

MOST_OTHERS = 3
"""Further causes that are shown without --verbose."""


def show_hang(event: Event, label: str = "") -> None:
    """Print that ranks do not advance, with the evidence and the next command; or that they advance again."""
    mark = "warning: " if event.text.startswith("hang: ") else ""
    console.say(f"{label}{mark}{event.text}")
    console.quote(event.lines)
    if event.hint:
        hints.say(event.hint)


def _show_last_lines(end: RankEnd) -> None:
    if end.last_lines:
        console.say(f"the last lines of {end.who}{f', which {end.symptom}' if end.symptom else ''}:")
        console.quote(end.last_lines[-LAST_LINES:])


def show_outcome(
    plan: RunPlan, outcome: Outcome, ran_s: float | None = None, *, verbose: bool = False, is_past: bool = False
) -> None:
    """Print how a run ended: the failed rank with its last lines, causes, leftovers, and the next command.

    What would have mended a refusal is no next command for a run that `is_past`: the hosts may have changed.
    """
    failure = outcome.first_failure
    next_steps = []
    if outcome.status is Status.DONE:
        hosts = fold(node.host.name for node in plan.nodes)
        took = "" if ran_s is None else f" in {duration(ran_s)}"
        ranks = counted(plan.world_size, "rank")
        console.say(f"run {plan.run} done{took}: {ranks} on {hosts} exited with code 0", style="green")
        next_steps += _warnings(plan, outcome)
    elif failure is not None and (failure.symptom or not _is_about(outcome, failure)):
        console.say(f"error: run {plan.run}: {outcome.reason}")
        _show_last_lines(failure)
        next_steps.append(next_command(plan, outcome))
    elif failure is not None:
        console.say(f"error: run {plan.run}: {failure.who} {described(failure)}{_others(plan, outcome, failure)}")
        console.quote(failure.last_lines[-LAST_LINES:])
        next_steps.append(next_command(plan, outcome))
    elif outcome.status is Status.FAILED:
        console.say(f"error: run {plan.run}: {outcome.reason}")
    else:
        console.say(f"run {plan.run} {outcome.status.value}: {outcome.reason}")
        for line in outcome.evidence:
            fix = line.startswith(FIX)
            console.say(f"  {hints.completed(line, hints.as_started(plan)) if fix else line}")
        hint = hints.completed(outcome.hint, hints.as_started(plan))
        if hint and is_past:
            console.say(f"  hint at that time: {hint}")
        elif hint:
            next_steps.append(hint)
    show_causes(outcome, verbose=verbose)
    if outcome.causes and outcome.causes[0].hint:
        next_steps.append(outcome.causes[0].hint)
    show_proof(plan, outcome)
    if outcome.leftovers:
        next_steps.append(f"pylaunch stop {plan.run}")
    if outcome.unproven:
        next_steps.append(f"when {fold(outcome.unproven)} can be reached again: pylaunch stop {plan.run}")
    if next_steps:
        hints.say(*next_steps, plan=plan)


def _warnings(plan: RunPlan, outcome: Outcome) -> list[str]:
    """Print the ranks of a run that is done which hide a failure. Return the command that shows the first of them."""
    hiding = [end for end in outcome.ends if end.hides_failure]
    for end in hiding[:MOST_WARNINGS]:
        console.say(f"warning: {end.who} {described(end)}")
    if more := len(hiding[MOST_WARNINGS:]):
        console.say(f"warning: {counted(more, 'more rank')} hide a failure behind code 0, too")
    return [_logs_of(plan, end.rank) for end in hiding[:1]]


def _is_about(outcome: Outcome, failure: RankEnd) -> bool:
    """Return True if the first cause is the failure itself, and not a fact of a host."""
    return not outcome.causes or outcome.causes[0].reason == f"{failure.who} {described(failure)}"


def _others(plan: RunPlan, outcome: Outcome, failure: RankEnd) -> str:
    """Return the part of the sentence about the other ranks: own failures, victims, and ranks that were stopped."""
    failed = [end for end in outcome.ends if end.rank not in (None, failure.rank) and end.failed]
    own = [end for end in failed if not (end.symptom or sounds_like_a_victim(end))]
    others, stopped = plan.world_size - 1, {end.rank for end in outcome.ends if end.rank is not None and end.stopped}
    victims = {end.rank for end in failed if end not in own}
    gone, verb = len(stopped | victims), "ended" if victims else "stopped"
    more = f", and {len(own) - 1} more" if len(own) > 1 else ""
    text = f"; {own[0].who} failed on its own, too ({described(own[0])}){more}" if own else ""
    if not gone:
        return text
    if gone == others - len(own):
        return f"{text}; the other {'rank' if gone == 1 else f'{gone} ranks'} {verb} with it"
    return f"{text}; {gone} of the other {others} ranks {verb} with it"


def next_command(plan: RunPlan, outcome: Outcome) -> str:
    """Return the command that says more about a failure: `explain` where nothing in the text of its rank is known, else
    the output of this rank."""
    first, failure = next(iter(outcome.causes), None), outcome.first_failure
    rank = None if failure is None else failure.rank
    if rank is not None and first is not None and not (first.text_class or first.hint):
        return pylaunch("explain", plan.attempt)
    named = outcome.named
    return _logs_of(plan, rank if named is None or named.rank is None else named.rank)


def _logs_of(plan: RunPlan, rank: int | None) -> str:
    return pylaunch("logs", plan.attempt, *(("--launcher",) if rank is None else ("--rank", str(rank))))


def show_proof(plan: RunPlan, outcome: Outcome, said: Collection[str] = ()) -> None:
    """Print the nodes that are proven clean; of others, but `said`, what is left or unknown."""
    hosts = [node.host.name for node in plan.nodes]
    clean = [host for host in hosts if host not in outcome.leftovers and host not in outcome.unproven]
    if clean:
        console.say(f"{fold(clean)}: clean (no process, port or device lease of the run is left)")
    for host, reason in outcome.unreadable.items():
        console.say(f"{host}: the files of the run cannot be read, output and record are incomplete: {reason}")
    for host in hosts:
        if host not in said and (left := outcome.leftovers.get(host)):
            console.say(f"{host}: left behind: {'; '.join(left)}")
    if unproven := [host for host in outcome.unproven if host not in said]:
        console.say(f"{fold(unproven)}: not known to be clean")


def show_causes(outcome: Outcome, *, verbose: bool = False) -> None:
    """Print the evidence for the first cause, and other causes; with `verbose` the rejected ones, and missing facts."""
    if outcome.causes:
        top, *others = outcome.causes
        if top.reason not in outcome.reason:
            console.say(f"{top.confidence.value} confidence: {top.reason}")
        if top.evidence:
            console.say(f"evidence ({top.confidence.value} confidence: {top.identifier}):")
        console.quote(top.evidence)
        for other in others if verbose else others[:MOST_OTHERS]:
            console.say(f"also, {other.confidence.value} confidence: {other.reason}")
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
