"""direct: the environment that torchrun would set, without torchrun.

Without torchrun there are no timers, because their server is in torchrun's agent, and no agent store: rank 0 hosts the
store at MASTER_ADDR:MASTER_PORT. `agent.shared.scripts.choose` recognises scripts that need one of them.
"""

from collections.abc import Mapping

from pylaunch.model.plan import NodeCommand, NodePlan, RankCommand, RankPlan, RunPlan, base_of
from pylaunch.render import script
from pylaunch.render.environment import node_layers, rank_environment, script_needs

ENVIRONMENT = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
}
"""torchrun's defaults. A rank whose NCCL collective has failed ends instead of waiting. Torch elastic reads the signals
in a rank that starts workers of its own."""


def elastic_environment(plan: RunPlan, rank: RankPlan) -> Mapping[str, str]:
    """Return the variables of torch elastic: one role for all ranks, and an id that all attempts share."""
    return {
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank.rank),
        "ROLE_WORLD_SIZE": str(plan.world_size),
        "TORCHELASTIC_RUN_ID": base_of(plan.run),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def render(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`, in torchrun's environment."""
    return script.render(
        plan, node, script.Dialect("torch", ENVIRONMENT, lambda rank: elastic_environment(plan, rank))
    )  # fmt: skip


def render_command(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`. A program given by path must exist; one given by name is found on PATH."""
    program = plan.job.command[0]
    return NodeCommand(
        launcher=(),
        layers=node_layers(plan, node),
        ranks=tuple(RankCommand(plan.job.command, rank_environment(plan, node, rank)) for rank in node.ranks),
        needs=script_needs(plan.job) if "/" in program else (),
    )
