"""mpi: hostfile and rankfile of Open MPI, and a script with the mpirun command that uses them."""

from collections.abc import Mapping

from pylaunch.features.render_files.files.accelerate import SCRIPT_DIRECTORY
from pylaunch.features.render_files.files.content import FileSet, RenderedFile, host_remarks, ssh_remarks, title
from pylaunch.model.plan import RunPlan
from pylaunch.model.text.argv import quoted
from pylaunch.render import render, shell
from pylaunch.render.shell import comments, common_python, rank_argv

HOSTFILE, RANKFILE, SCRIPT = "hostfile", "rankfile", "mpirun.sh"
OF_OPEN_MPI = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}
"""Variables of ranks, and the variables of Open MPI that have the same values."""


def files(plan: RunPlan, remarks: tuple[str, ...]) -> FileSet:
    """Return the files. Raises UsageError for nodes with different interpreters."""
    commands = render(plan)
    notes = (*remarks, *ssh_remarks(plan), *host_remarks(plan))
    every = [shell.shared_variables(plan, command) for _, command in commands]
    same = {name: value for name, value in every[0].items() if all(each.get(name) == value for each in every)}
    meeting = {"MASTER_ADDR": plan.coordinator.host.rank_address, "MASTER_PORT": plan.port}
    forwarded = ["PATH", *same, *meeting, *plan.job.secrets]
    heading = (
        title(plan),
        f"Start it on one node that reaches the others by ssh: bash {SCRIPT}",
        f"To bind each rank to one core, as in {RANKFILE}: in place of --map-by slot --bind-to none, use",
        f"  --rankfile {RANKFILE} (Open MPI 4) or --map-by rankfile:file={RANKFILE} (Open MPI 5)",
        *notes,
    )
    body = [
        SCRIPT_DIRECTORY,
        *shell.path_line(plan, plan.coordinator),
        *shell.exported({**same, **meeting}),
        *shell.secret_guards(plan.job.secrets),
        *shell.change_directory(plan),
        "# Each process of mpirun is one rank.",
        "# shellcheck disable=SC2016",
        f"exec mpirun -np {plan.world_size} \\",
        f'  --hostfile "$here/{HOSTFILE}" --map-by slot --bind-to none \\',
        "  " + " ".join(f"-x {name}" for name in dict.fromkeys(forwarded)) + " \\",
        "  bash -c '",
        *(f'    export {name}="${source}"' for name, source in OF_OPEN_MPI.items()),
        *_differing(plan, every, same),
        '    exec "$@"\' rank \\',
        f"  {quoted(rank_argv(plan, common_python(plan)))}",
    ]
    hosts = "".join(f"{node.host.address} slots={len(node.ranks)}\n" for node in plan.nodes)
    ranks = "".join(
        f"rank {rank.rank}={node.host.address} slot={rank.local_rank}\n" for node in plan.nodes for rank in node.ranks
    )
    above = "\n".join(comments((title(plan),))) + "\n"
    made = (
        RenderedFile(HOSTFILE, above + hosts),
        RenderedFile(RANKFILE, above + ranks),
        RenderedFile(SCRIPT, shell.script(heading, body)),
    )
    return FileSet(made, (f"bash {SCRIPT}",), notes)


def _differing(plan: RunPlan, every: list[dict[str, str]], same: Mapping[str, str]) -> list[str]:
    """Return lines inside single quotes that set what differs between nodes. Ranks are numbered by node."""
    lines: list[str] = []
    for node, variables in zip(plan.nodes, every, strict=True):
        own = {name: value for name, value in variables.items() if name not in same}
        if own:
            exports = [line.replace("'", "'\\''") for line in shell.exported(own)]
            lines.append(f"    if ((RANK >= {node.ranks[0].rank} && RANK <= {node.ranks[-1].rank})); then")
            lines += [*(f"      {line}" for line in exports), "    fi"]
    return lines
