"""slurm: a complete script for sbatch, which needs no pylaunch on the nodes.

Slurm chooses nodes and devices: names of hosts and device indexes of the inventory are not in the script. Nodes with
the same number of ranks are one component; several components are a heterogeneous job. Ranks get their variables from
those that srun sets for each task.
"""

from collections.abc import Sequence
from itertools import groupby

from pylaunch.features.render_files.files import shell
from pylaunch.features.render_files.files.shell import (
    FileSet,
    RenderedFile,
    comments,
    common_python,
    host_remarks,
    job_label,
    rank_argv,
    shared_variables,
    title,
)
from pylaunch.model.job import Framework
from pylaunch.model.plan import PORT_ENTRY, NodePlan, RunPlan
from pylaunch.model.text.argv import Argv, quoted
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


def common_variables(plan: RunPlan) -> tuple[dict[str, str], list[str]]:
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


PORT_BY_JOB = 'export MASTER_PORT="$((61440 + SLURM_JOB_ID % 4096))"'
"""Above the ephemeral ports of Linux, and different for jobs on the same node."""


def slurm_files(plan: RunPlan, remarks: tuple[str, ...], options: tuple[str, ...] = ()) -> FileSet:
    """Return the script. `options` are further options of sbatch, such as "--partition=gpu".

    Raises UsageError for nodes with different interpreters, and for JAX under torchrun.
    """
    name = f"{job_label(plan)}.sbatch"
    components = [
        list(nodes) for _, nodes in groupby(plan.nodes, key=lambda node: (len(node.ranks), len(node.devices)))
    ]
    variables, left_out = common_variables(plan)
    notes = (*remarks, *_notes(plan, left_out), *host_remarks(plan))
    heading = (
        title(plan),
        f"Submit it with: sbatch {name}",
        "Options on the command line of sbatch override the lines below: sbatch --partition=NAME --time=HH:MM:SS",
        *notes,
    )
    nodelist = "SLURM_JOB_NODELIST" if len(components) == 1 else "SLURM_JOB_NODELIST_HET_GROUP_0"
    lines = [
        shell.SHEBANG,
        *comments(heading),
        *_directives(plan, components, options),
        shell.STRICT,
        *shell.path_line(plan, plan.coordinator),
        *shell.exported(variables),
        *shell.secret_guards(plan.job.secrets),
        "# Tasks get the environment of this script, also after sbatch --export=NONE.",
        "export SLURM_EXPORT_ENV=ALL",
        f'mapfile -t hosts < <(scontrol show hostnames "${nodelist}")',
        'export MASTER_ADDR="${hosts[0]}"',
        PORT_BY_JOB if plan.port == PORT_ENTRY else f"export MASTER_PORT={plan.port}",
        *shell.change_directory(plan),
        *_step(plan, components),
    ]
    return FileSet((RenderedFile(name, "\n".join(lines) + "\n"),), (f"sbatch {name}",), notes)


def _notes(plan: RunPlan, left_out: list[str]) -> tuple[str, ...]:
    notes = ["Slurm chooses the nodes and devices; to use those of the inventory: sbatch --nodelist=NAMES"]
    if plan.port == PORT_ENTRY:
        notes.append("MASTER_PORT follows from the job id, so that jobs on one node differ; --port N sets one")
    if left_out:
        notes.append(f"Left out, because the inventory has different values for its hosts: {', '.join(left_out)}")
    return tuple(notes)


def _directives(plan: RunPlan, components: list[list[NodePlan]], options: tuple[str, ...]) -> list[str]:
    """Return the lines that sbatch reads. Whole nodes: the inventory does not know how many cores a rank needs."""
    lines = [f"#SBATCH --job-name={job_label(plan)}", "#SBATCH --output=%x-%j.out"]
    for number, nodes in enumerate(components):
        tasks = 1 if is_torchrun(plan) else len(nodes[0].ranks)
        lines += ["#SBATCH hetjob"] if number else []
        lines += [f"#SBATCH --nodes={len(nodes)}", f"#SBATCH --ntasks-per-node={tasks}", "#SBATCH --exclusive"]
        lines += [f"#SBATCH --gres=gpu:{len(nodes[0].devices)}"] if nodes[0].devices else []
        lines += [f"#SBATCH {option}" for option in options]
    return lines


def _step(plan: RunPlan, components: list[list[NodePlan]]) -> list[str]:
    """Return the srun command. The first task that fails ends all; tasks may use every core of their node."""
    is_even = len(components) == 1
    groups = () if is_even else (f"--het-group=0-{len(components) - 1}",)
    lines, argv = task(plan, components)
    return [
        f"# Each task is one {'torchrun of one node' if is_torchrun(plan) else 'rank'}.",
        "# shellcheck disable=SC2016",
        quoted(("srun", *groups, "--kill-on-bad-exit=1", "--label", "--cpu-bind=none")) + " bash -c '",
        *(f"  {line}" for line in lines),
        f"' task {quoted(argv)}",
    ]
