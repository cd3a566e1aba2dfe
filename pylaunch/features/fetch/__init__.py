"""Bring files of a run home from its nodes: `pylaunch fetch RUN PATTERN…`.

places       which file of which node becomes which file here, below one directory and never outside it
node_files   lists and reads files on nodes, whose answers are data
"""

from pylaunch.terminal.doors import Names, Verb

VERBS = {
    "fetch": Verb(
        "pylaunch.features.fetch.command",
        "Bring checkpoints and other files of a run here from its nodes",
        after="logs",
        names=Names.RUN,
    ),
}
