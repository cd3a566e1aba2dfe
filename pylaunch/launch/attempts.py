"""A run with restarts: attempt after attempt, as `explain.restart` decides, until one ends well or none is to come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pylaunch.explain.restart import Attempt, Over, Policy, next_attempt
from pylaunch.model.plan import RunPlan, replan


@dataclass(frozen=True)
class AttemptIO:
    """What a campaign uses of the world."""

    attempt: Callable[[RunPlan], Attempt]
    """Start a plan and follow it to its end."""

    is_asked_to_stop: Callable[[], bool]
    """Somebody stopped the run where we could not see it, between two attempts."""

    tell: Callable[[str], None]
    clock: Callable[[], float]
    """Seconds; only differences count."""


def policy_of(plan: RunPlan) -> Policy:
    """What the user allowed for `plan`, the first attempt."""
    nodes = len(plan.nodes)
    least = nodes if plan.job.min_nodes is None else plan.job.min_nodes
    return Policy(plan.job.max_restarts, nodes, least)


def run_attempts(plan: RunPlan, means: AttemptIO) -> Attempt:
    """Try until it works or `next_attempt` gives up; the last attempt."""
    policy = policy_of(plan)
    everybody = (*plan.cluster.names, *(host.name for host in plan.spares))
    attempts: list[tuple[float, Attempt]] = []
    while True:
        last = means.attempt(plan)
        attempts.append((means.clock(), last))
        decision = next_attempt(policy, everybody, attempts, means.clock())
        if isinstance(decision, Over):
            if decision.why:
                means.tell(f"no restart: {decision.why}")
            return last
        if means.is_asked_to_stop():
            means.tell("no restart: the run was stopped")
            return last
        plan = replan(plan, decision.hosts)
        change = f" ({decision.why})" if decision.why else ""
        means.tell(f"restart {plan.restart} of {policy.max_restarts}{change}: run {plan.run}")
