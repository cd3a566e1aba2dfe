"""DeepSpeed: the environment and arguments that its launcher gives a rank, without its launcher.

The launcher checks only the first host before it starts, forwards variables by their prefix, and leaves the other nodes
running when one fails (measured with 0.19.8).
"""

from collections.abc import Mapping

from pylaunch.model.plan import NodeCommand, NodePlan, RankPlan, RunPlan
from pylaunch.render import direct, script


def render(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`, with the argument --local_rank=N first, as DeepSpeed scripts expect."""

    def rank_env(rank: RankPlan) -> Mapping[str, str]:
        return {
            **direct.elastic_environment(plan, rank),
            "CROSS_RANK": str(node.node_rank),
            "CROSS_SIZE": str(len(plan.nodes)),
            "LOCAL_SIZE": str(len(node.ranks)),
        }

    dialect = script.Dialect(
        "torch", direct.ENVIRONMENT, rank_env, arguments=lambda rank: (f"--local_rank={rank.local_rank}",)
    )  # fmt: skip
    return script.render(plan, node, dialect)
