"""Two runs of a small job on this machine: one ends well, in the other a rank fails (`demo`).

ranks/    the job, copied beside the nodes: linear regression on the standard library alone
nodes     nodes that are directories, with the agent in each
command   the verb
"""

from pylaunch.terminal.doors import Verb, VerbGroup

VERBS = {
    "demo": Verb(
        "pylaunch.features.demo.command",
        "Run a small job on this machine, then break one of its ranks",
        group=VerbGroup.PREPARE,
        is_first=True,
        example="pylaunch demo                                        try it here, in seconds",
    ),
}
