"""Any program: the agent starts one per rank, with the environment that torchrun made common."""

from pylaunch.model.plan import NodeCommand, NodePlan, RankCommand, RunPlan
from pylaunch.render.environment import node_layers, rank_environment, script_needs


def render(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`. A program given by path must exist; one given by name is found on PATH."""
    program = plan.job.command[0]
    return NodeCommand(
        launcher=(),
        layers=node_layers(plan, node),
        ranks=tuple(RankCommand(plan.job.command, rank_environment(plan, node, rank)) for rank in node.ranks),
        needs=script_needs(plan.job) if "/" in program else (),
    )
