"""jax: for each node a script that starts its processes, so that `jax.distributed.initialize()` needs no arguments."""

from pylaunch.features.render_files.files.content import FileSet, RenderedFile, file_stem, host_remarks, title
from pylaunch.model.hostset import fold_ranks
from pylaunch.model.plan import RunPlan
from pylaunch.render import render, shell
from pylaunch.render.environment import interpreter
from pylaunch.render.shell import rank_argv

SHUTDOWN = (
    "A process that raises waits in JAX's shutdown barrier for the others, up to 5 minutes: "
    "jax.distributed.initialize(shutdown_timeout_seconds=10) shortens it"
)


def files(plan: RunPlan, remarks: tuple[str, ...]) -> FileSet:
    """Return a script for each node, with the variables of Open MPI, which JAX reads (see `render.jax`)."""
    notes = (*remarks, SHUTDOWN, *host_remarks(plan))
    made = []
    for node, command in render(plan):
        name = f"jax-{file_stem(node)}.sh"
        processes = [rank.rank for rank in node.ranks]
        counted = "process" if len(processes) == 1 else "processes"
        heading = (
            title(plan),
            f"Node {node.node_rank}, {node.host.name}: {counted} {fold_ranks(processes)}",
            "Start it on every node; JAX waits 5 minutes for the others",
            *notes,
        )
        argv = rank_argv(plan, interpreter(plan, node))
        body = [*shell.setup(plan, node, command), *shell.all_ranks(len(node.ranks), shell.rank_exports(command), argv)]
        made.append((node, RenderedFile(name, shell.script(heading, body))))
    return FileSet(
        tuple(file for _, file in made), tuple(shell.ssh_line(node, file.name) for node, file in made), notes
    )
