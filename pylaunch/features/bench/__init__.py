"""Communication tests: bandwidths, latencies, and the node or link that is slow (`bench`).

judgement/       pure: measurements in, verdicts and plots out
ranks/           the program that measures; shipped to the nodes
run/             runs of that program, and files of their results
report_section   the results in the report of a run
"""

from pylaunch.terminal.doors import Verb

VERBS = {
    "bench": Verb(
        "pylaunch.features.bench.command",
        "Measure the communication between hosts; name what is slow",
        after="doctor",
    ),
}

REPORT_SECTION = "pylaunch.features.bench.report_section"
"""Module whose `measured` returns the results of a run for its report."""
