"""torchrun: for each node a script with the exact command."""

from pylaunch.features.render_files.files import shell
from pylaunch.features.render_files.files.shell import (
    FileSet,
    RenderedFile,
    file_stem,
    host_remarks,
    title,
)
from pylaunch.model.hostset import fold_ranks
from pylaunch.model.plan import NodePlan, RunPlan
from pylaunch.model.text.argv import Argv
from pylaunch.render import interpreter, render


def torchrun_files(plan: RunPlan, remarks: tuple[str, ...]) -> FileSet:
    """Return a script for each node."""
    notes = (*remarks, *host_remarks(plan))
    made = []
    for node, command in render(plan):
        name = f"torchrun-{file_stem(node)}.sh"
        ranks = [rank.rank for rank in node.ranks]
        heading = (
            title(plan),
            f"Node {node.node_rank}, {node.host.name}: {'rank' if len(ranks) == 1 else 'ranks'} {fold_ranks(ranks)}",
            "Start it on every node; torchrun waits 15 minutes for the others",
            *notes,
        )
        groups = launcher_groups(plan, node, f"--node-rank={node.node_rank}")
        words = shell.wrapped((interpreter(plan, node), "-m", "torch.distributed.run"), *groups)
        body = [*shell.setup(plan, node, command), "exec " + words[0], *words[1:]]
        made.append((node, RenderedFile(name, shell.script(heading, body))))
    return FileSet(
        tuple(file for _, file in made), tuple(shell.ssh_line(node, file.name) for node, file in made), notes
    )


def launcher_groups(plan: RunPlan, node: NodePlan, node_rank: str) -> tuple[Argv, ...]:
    """Return torchrun's options for `node` and the program, in groups. Rendezvous is static, as the plan is."""
    return (
        (f"--nnodes={len(plan.nodes)}", node_rank, f"--nproc-per-node={len(node.ranks)}"),
        (f"--master-addr={plan.coordinator.host.rank_address}", f"--master-port={plan.port}"),
        (f"--max-restarts={plan.job.max_restarts}",) if plan.job.max_restarts else (),
        plan.job.command,
    )
