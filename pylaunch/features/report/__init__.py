"""A run as a file: the HTML report (`report`, `start --report`), and the archive for a bug report (`collect`).

page/        pure: the report as text
write        reads what is known about a run, from its record and its nodes
collect      the archive, which contains the report
at_end       the report of a start that failed
"""

from pylaunch.store.output_directory import OUTPUT_DIRECTORY
from pylaunch.terminal.doors import ObserverOption, Verb, VerbGroup

VERBS = {
    "collect": Verb(
        "pylaunch.features.report.collect_command",
        "Put everything about a run into one archive, for a bug report",
        after="stacks",
        group=VerbGroup.DIAGNOSE,
    ),
    "report": Verb(
        "pylaunch.features.report.command",
        "Write a run as one HTML file: cause, timeline, stacks, logs",
        after="collect",
    ),
}

NAMED_BY_RUN = "pylaunch-RUN.html"
"""Value of --report without a file."""

OBSERVER = ObserverOption(
    "report",
    "pylaunch.features.report.at_end",
    {
        "is_flag": False,
        "flag_value": NAMED_BY_RUN,
        "metavar": "[FILE]",
        "help": f"If the run fails, write it as one HTML file.  [default: {OUTPUT_DIRECTORY}/{NAMED_BY_RUN}]",
    },
)
