"""The plan of a start as files for Slurm and torchrun (`render`). No host is contacted.

files/     pure: a plan in, files of a target out
command    plans the start, refuses secrets, writes the files
"""

from pylaunch.terminal.doors import Names, Verb

VERBS = {
    "render": Verb(
        "pylaunch.features.render_files.command",
        "Write a plan as files for Slurm or torchrun",
        after="rerun",
        names=Names.HOSTS,
        subcommands=("slurm", "torchrun"),
    ),
}
