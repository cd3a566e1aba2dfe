"""Bring files of a run home from its nodes: `pylaunch fetch RUN PATTERN…`.

choice        pure: which file of which node becomes which file here
node_files    lists and reads files on nodes, whose answers are data
local_files   writes below one directory, and never outside it
work          all of it in order
"""

from pylaunch.terminal.doors import Verb

VERBS = {
    "fetch": Verb(
        "pylaunch.features.fetch.command",
        "Bring checkpoints and other files of a run here from its nodes",
        after="logs",
    ),
}

DIRECTORY = "fetch-RUN"
"""Default directory, in the output directory."""
