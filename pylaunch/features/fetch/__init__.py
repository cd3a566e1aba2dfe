"""Bring files of a run home from its nodes: `pylaunch fetch RUN PATTERN…`, `start --fetch PATTERN`.

choice        pure: which file of which node becomes which file here
node_files    lists and reads files on nodes, whose answers are data
local_files   writes below one directory, and never outside it
work          all of it in order
at_end        the files of a run that has ended
"""

from pylaunch.store.output_directory import OUTPUT_DIRECTORY
from pylaunch.terminal.doors import ObserverOption, Verb

VERBS = {
    "fetch": Verb(
        "pylaunch.features.fetch.command",
        "Bring checkpoints and other files of a run here from its nodes",
        after="logs",
    ),
}

DIRECTORY = "fetch-RUN"
"""Default directory, in the output directory."""

OBSERVER = ObserverOption(
    "fetch",
    "pylaunch.features.fetch.at_end",
    {
        "multiple": True,
        "metavar": "PATTERN",
        "help": "Bring files of the working directory that match PATTERN here at the end: 'ckpt/*.pt'. Several times: "
        f"each of them.  [to: {OUTPUT_DIRECTORY}/{DIRECTORY}]",
    },
)
"""`start --fetch`."""
