"""slurm: a complete script for sbatch, which needs no pylaunch on the nodes.

Slurm chooses nodes and devices: names of hosts and device indexes of the inventory are not in the script. Nodes with
the same number of ranks are one component; several components are a heterogeneous job. Ranks get their variables from
those that srun sets for each task.
"""

from itertools import groupby

from pylaunch.features.render_files.files import shell, srun
from pylaunch.features.render_files.files.content import FileSet, RenderedFile, host_remarks, label, title
from pylaunch.features.render_files.files.shell import comments
from pylaunch.model.plan import PORT_ENTRY, NodePlan, RunPlan
from pylaunch.model.text.argv import quoted

PORT_BY_JOB = 'export MASTER_PORT="$((61440 + SLURM_JOB_ID % 4096))"'
"""Above the ephemeral ports of Linux, and different for jobs on the same node."""


def files(plan: RunPlan, remarks: tuple[str, ...], options: tuple[str, ...] = ()) -> FileSet:
    """Return the script. `options` are further options of sbatch, such as "--partition=gpu".

    Raises UsageError for nodes with different interpreters, and for JAX under torchrun.
    """
    name = f"{label(plan)}.sbatch"
    components = [
        list(nodes) for _, nodes in groupby(plan.nodes, key=lambda node: (len(node.ranks), len(node.devices)))
    ]
    variables, left_out = srun.variables(plan)
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
    lines = [f"#SBATCH --job-name={label(plan)}", "#SBATCH --output=%x-%j.out"]
    for number, nodes in enumerate(components):
        tasks = 1 if srun.is_torchrun(plan) else len(nodes[0].ranks)
        lines += ["#SBATCH hetjob"] if number else []
        lines += [f"#SBATCH --nodes={len(nodes)}", f"#SBATCH --ntasks-per-node={tasks}", "#SBATCH --exclusive"]
        lines += [f"#SBATCH --gres=gpu:{len(nodes[0].devices)}"] if nodes[0].devices else []
        lines += [f"#SBATCH {option}" for option in options]
    return lines


def _step(plan: RunPlan, components: list[list[NodePlan]]) -> list[str]:
    """Return the srun command. The first task that fails ends all; tasks may use every core of their node."""
    is_even = len(components) == 1
    groups = () if is_even else (f"--het-group=0-{len(components) - 1}",)
    lines, argv = srun.task(plan, components)
    return [
        f"# Each task is one {'torchrun of one node' if srun.is_torchrun(plan) else 'rank'}.",
        "# shellcheck disable=SC2016",
        quoted(("srun", *groups, "--kill-on-bad-exit=1", "--label", "--cpu-bind=none")) + " bash -c '",
        *(f"  {line}" for line in lines),
        f"' task {quoted(argv)}",
    ]
