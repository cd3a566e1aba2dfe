"""env: for each node a shell file that sets the variables of its ranks."""

from pylaunch.features.render_files.files.content import FileSet, RenderedFile, file_stem, host_remarks, title
from pylaunch.model.plan import RunPlan
from pylaunch.model.text.argv import quoted
from pylaunch.render import render, shell
from pylaunch.render.environment import interpreter
from pylaunch.render.shell import comments, rank_argv


def files(plan: RunPlan, remarks: tuple[str, ...]) -> FileSet:
    """Return a file for each node, for `.` of any POSIX shell."""
    notes = (*remarks, *host_remarks(plan))
    made, commands = [], []
    for node, command in render(plan):
        name = f"env-{file_stem(node)}.sh"
        argv = quoted(rank_argv(plan, interpreter(plan, node)))
        last = len(node.ranks) - 1
        heading = (
            title(plan),
            f"Variables of the ranks on {node.host.name}, node {node.node_rank}, with LOCAL_RANK 0 to {last}:",
            f"  LOCAL_RANK=0; . ./{name}; exec {argv}",
            *notes,
        )
        body = [
            *shell.path_line(plan, node),
            *shell.exported(shell.shared_variables(plan, command)),
            "# Variables of one rank",
            'export LOCAL_RANK="${LOCAL_RANK:-0}"',
            *shell.rank_exports(command),
            *shell.secret_guards(plan.job.secrets),
            *(f"{line} || return" for line in shell.change_directory(plan)),
        ]
        made.append(RenderedFile(name, "\n".join(["# shellcheck shell=sh", *comments(heading), *body]) + "\n"))
        commands.append(f"LOCAL_RANK=0; . ./{name}; exec {argv}")
    return FileSet(tuple(made), tuple(commands[:1]), notes)
