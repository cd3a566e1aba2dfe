"""accelerate: the environment that `accelerate launch` would set for this plan, without its arithmetic.

Its launcher starts total // machines processes on each machine, so 3 on 2 become 2, and with --cpu it starts a job of
its own on every machine (measured with 1.15). `accelerate.Accelerator()` reads only the environment.
"""

from pylaunch.errors import UsageError
from pylaunch.model.hostset import fold
from pylaunch.model.plan import NodeCommand, NodePlan, RunPlan
from pylaunch.render import direct, script

USE_CPU = "ACCELERATE_USE_CPU"


def render(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`. Raises UsageError if only some nodes have devices: their ranks cannot meet."""
    bare = [each.host.name for each in plan.nodes if not each.devices]
    if bare and len(bare) < len(plan.nodes) and USE_CPU not in plan.job.env:
        raise UsageError(
            f"{fold(bare)} {'has' if len(bare) == 1 else 'have'} no devices in the inventory and other nodes have: "
            "accelerate would talk over gloo on the ones and over NCCL on the others",
            hint=f"gpus= or devices= in the inventory, --limit, or --env {USE_CPU}=true to train on CPUs everywhere",
        )
    env = {**direct.ENVIRONMENT, USE_CPU: "true" if bare else "false"}
    return script.render(
        plan, node, script.Dialect("torch", env, lambda rank: direct.elastic_environment(plan, rank))
    )  # fmt: skip


def remarks(plan: RunPlan) -> tuple[str, ...]:
    """Report that accelerate trains on CPUs, unless a flag requests it."""
    if USE_CPU in plan.job.env or any(node.devices for node in plan.nodes):
        return ()
    return (f"no devices in the inventory: accelerate trains on CPUs ({USE_CPU}=true; gpus= or devices= changes it)",)
