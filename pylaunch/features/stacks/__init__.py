"""What each rank of a run does: stacks and collectives (`stacks`).

page         pure: ranks with the same stack, as text
command      `stacks`; `runs/stacks.py` asks the nodes, as the Python API does
"""

from pylaunch.terminal.doors import Names, Verb, VerbGroup

VERBS = {
    "stacks": Verb(
        "pylaunch.features.stacks.command",
        "Show what each rank of a run is doing: stacks and collectives",
        after="gpus",
        names=Names.RUN,
        group=VerbGroup.DIAGNOSE,
    ),
}
