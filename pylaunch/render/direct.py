"""direct: the environment that torchrun would set, without torchrun.

TORCHELASTIC_SIGNALS_TO_HANDLE and the timers are omitted: they are between torchrun and its own ranks. There is no
agent store, so rank 0 hosts the store at MASTER_ADDR:MASTER_PORT.
"""

from __future__ import annotations

from collections.abc import Mapping

from pylaunch.model.plan import NodeCommand, NodePlan, RankPlan, RunPlan
from pylaunch.render import script

ENVIRONMENT = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
"""torchrun's default for NCCL: a rank whose collective has failed ends, instead of waiting."""


def elastic_environment(plan: RunPlan, rank: RankPlan) -> Mapping[str, str]:
    """Return the variables of torch elastic: one role for all ranks, and the id of the run."""
    return {
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank.rank),
        "ROLE_WORLD_SIZE": str(plan.world_size),
        "TORCHELASTIC_RUN_ID": plan.run,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def render(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`, in torchrun's environment."""
    return script.render(
        plan, node, script.Dialect("torch", ENVIRONMENT, lambda rank: elastic_environment(plan, rank))
    )  # fmt: skip
