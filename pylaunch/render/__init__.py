"""Command lines and layers of the environment that a framework needs for a plan. Pure."""

from pylaunch.model.job import Framework
from pylaunch.model.plan import NodeCommand, NodePlan, RunPlan
from pylaunch.render import accelerate, deepspeed, direct, jax, ray, torchrun

_RENDERERS = {
    Framework.TORCHRUN: torchrun.render,
    Framework.DIRECT: direct.render,
    Framework.JAX: jax.render,
    Framework.ACCELERATE: accelerate.render,
    Framework.DEEPSPEED: deepspeed.render,
    Framework.RAY: ray.render,
    Framework.COMMAND: direct.render_command,
}


def render(plan: RunPlan) -> tuple[tuple[NodePlan, NodeCommand], ...]:
    """Return every node of `plan` with its commands.

    Raises UsageError for a plan that the framework cannot run as planned.
    """
    renderer = _RENDERERS[plan.job.framework]
    return tuple((node, renderer(plan, node)) for node in plan.nodes)


def remarks(plan: RunPlan) -> tuple[str, ...]:
    """Return decisions of the framework that a person may not expect, one line each."""
    return accelerate.remarks(plan) if plan.job.framework is Framework.ACCELERATE else ()
