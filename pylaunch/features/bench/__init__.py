"""Communication tests: bandwidths, and the node or link that is slow (`bench`).

judgement/       pure: measurements in, verdicts out
ranks/           the program that measures; shipped to the nodes
measure          runs of that program, and the verdict
"""

from pylaunch.terminal.doors import Names, Verb

VERBS = {
    "bench": Verb(
        "pylaunch.features.bench.command",
        "Measure the communication between hosts; name what is slow",
        after="check",
        names=Names.HOSTS,
    ),
}
