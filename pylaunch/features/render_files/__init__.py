"""The plan of a start as a script for Slurm or torchrun (`render`). No host is contacted.

scripts    pure: a plan in, a script out
command    plans the start, refuses secrets, prints the script
"""

from pylaunch.terminal.doors import Names, Verb

VERBS = {
    "render": Verb(
        "pylaunch.features.render_files.command",
        "Print a plan as a script for Slurm or torchrun",
        after="rerun",
        names=Names.HOSTS,
        subcommands=("slurm", "torchrun"),
    ),
}
