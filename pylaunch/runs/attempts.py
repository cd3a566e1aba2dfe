"""A run with restarts: attempt after attempt, as `verdict.restart` decides."""

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.job import OnHang
from pylaunch.model.plan import RunPlan, replan
from pylaunch.verdict.restart import Attempt, Over, Policy, next_attempt


@dataclass(frozen=True)
class Restarting:
    """Another attempt follows."""

    plan: RunPlan
    why: str
    """Changes of the hosts, in one line; "" when there are none."""

    fallback: str = ""
    """Change of the network with its price, in one line; "" when there is none."""


@dataclass(frozen=True)
class NoRestart:
    """No attempt follows one that failed."""

    why: str


@dataclass(frozen=True)
class AttemptIO:
    """Effects of `run_attempts`."""

    attempt: Callable[[RunPlan], Attempt]
    """Start a plan and follow it to its end."""

    is_asked_to_stop: Callable[[], bool]
    """Another controller stopped the run, perhaps between two attempts."""

    report: Callable[[Restarting | NoRestart], None]
    clock: Callable[[], float]
    """Seconds; only differences count."""


def policy_of(plan: RunPlan) -> Policy:
    """Return the restarts that the user allows for `plan`, the first attempt."""
    nodes = len(plan.nodes)
    least = nodes if plan.job.min_nodes is None else plan.job.min_nodes
    return Policy(plan.job.max_restarts, nodes, least, restarts_hangs=plan.job.on_hang is OnHang.RESTART)


def run_attempts(plan: RunPlan, io: AttemptIO) -> Attempt:
    """Repeat until an attempt succeeds or `next_attempt` gives up; return the last attempt."""
    policy = policy_of(plan)
    hosts = (*plan.cluster.names, *(host.name for host in plan.spares))
    attempts: list[tuple[float, Attempt]] = []
    while True:
        last = io.attempt(plan)
        attempts.append((io.clock(), last))
        decision = next_attempt(policy, hosts, attempts, io.clock())
        if isinstance(decision, Over) or io.is_asked_to_stop():
            why = decision.why if isinstance(decision, Over) else "the run was stopped"
            if why:
                io.report(NoRestart(why))
            return last
        plan = replan(plan, decision.hosts)
        from pylaunch.store.signatures import signatures  # noqa: PLC0415
        from pylaunch.verdict.fallback import fallback_of  # noqa: PLC0415 -- 25 ms that only a restart costs

        step = fallback_of(plan.job, last.outcome, signatures)
        if step is not None:
            plan = replace(plan, job=replace(plan.job, env={**plan.job.env, **step.env}))
        io.report(Restarting(plan, decision.why, "" if step is None else step.text))
