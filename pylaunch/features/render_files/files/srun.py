"""Tasks of srun for the ranks of a plan: their variables come from those that srun sets for each task.

Names of hosts and device indexes of the inventory are in none of them, because Slurm chooses both.
"""

from collections.abc import Sequence

from pylaunch.features.render_files.files.shell import common_python, rank_argv, shared_variables
from pylaunch.model.job import Framework
from pylaunch.model.plan import NodePlan, RunPlan
from pylaunch.model.text.argv import Argv
from pylaunch.render import render

SET_BY_SLURM = ("CUDA_VISIBLE_DEVICES", "JAX_COORDINATOR_ADDRESS", "OMPI_MCA_orte_hnp_uri")
"""Variables of the plan that name a device or a host. JAX reads Slurm's own variables."""

OF_TASK = {
    "RANK": "SLURM_PROCID",
    "LOCAL_RANK": "SLURM_LOCALID",
    "WORLD_SIZE": "SLURM_NTASKS",
    "LOCAL_WORLD_SIZE": "SLURM_NTASKS_PER_NODE",
    "GROUP_RANK": "SLURM_NODEID",
    "GROUP_WORLD_SIZE": "SLURM_NNODES",
}
"""Variables of ranks, and the variables of a task with the same values where all nodes have as many tasks."""


def is_torchrun(plan: RunPlan) -> bool:
    """Return True where each task is a torchrun, which starts the ranks of its node."""
    return plan.job.framework is Framework.TORCHRUN


def variables(plan: RunPlan) -> tuple[dict[str, str], list[str]]:
    """Return the variables that all nodes share, and the names of those that differ."""
    every = [
        {
            name: value
            for name, value in shared_variables(plan, command).items()
            if name in plan.job.env or name not in SET_BY_SLURM
        }
        for _, command in render(plan)
    ]
    same = {name: value for name, value in every[0].items() if all(each.get(name) == value for each in every)}
    return same, sorted({name for each in every for name in each} - same.keys())


def task(plan: RunPlan, components: Sequence[Sequence[NodePlan]]) -> tuple[list[str], Argv]:
    """Return the lines of bash that a task runs, and their arguments. It is a rank, or with torchrun that of a node.

    `components` are the nodes of each component of the job; those of one have the same number of ranks.
    """
    python = common_python(plan)
    if is_torchrun(plan):
        return _torchrun_task(plan, components), (python, *plan.job.command)
    return _rank_task(plan, components), rank_argv(plan, python)


def _rank_task(plan: RunPlan, components: Sequence[Sequence[NodePlan]]) -> list[str]:
    """Return the lines of a task that is a rank. The numbers of a heterogeneous job are those of the plan."""
    if len(components) == 1:
        lines = [f'export {name}="${source}"' for name, source in OF_TASK.items()]
    else:
        own = ("RANK", "LOCAL_RANK")
        lines = [f'export {name}="${OF_TASK[name]}"' for name in own]
        lines.append(f"export WORLD_SIZE={plan.world_size} GROUP_WORLD_SIZE={len(plan.nodes)}")
        lines.append(f"export SLURM_NTASKS={plan.world_size}") if plan.job.framework is Framework.JAX else None
        for nodes in components:
            first, count = nodes[0].ranks[0].rank, len(nodes[0].ranks)
            group = f"$(({nodes[0].node_rank} + (RANK - {first}) / {count}))" if first else f"$((RANK / {count}))"
            condition = f"((RANK < {first})) || " if first else ""
            lines.append(f"{condition}export LOCAL_WORLD_SIZE={count} GROUP_RANK={group}")
    if plan.job.framework is Framework.JAX:
        lines.append('export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"')
    if plan.job.framework is Framework.DEEPSPEED:
        lines.append('set -- "$@" --local_rank="$LOCAL_RANK"')
    return [*lines, 'exec "$@"']


def _torchrun_task(plan: RunPlan, components: Sequence[Sequence[NodePlan]]) -> list[str]:
    """Return the lines of a task that is the torchrun of a node, whose node rank is the number of the task."""
    lines = [f"ranks={len(components[0][0].ranks)}"]
    for nodes in components[1:]:
        lines.append(f"((SLURM_PROCID < {nodes[0].node_rank})) || ranks={len(nodes[0].ranks)}")
    return [
        *lines,
        'exec "$1" -m torch.distributed.run \\',
        f'  --nnodes={len(plan.nodes)} --node-rank="$SLURM_PROCID" --nproc-per-node="$ranks" \\',
        '  --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" \\',
        '  "${@:2}"',
    ]
